"""What a message wants, and what it says about event and seats."""

from datetime import date
from decimal import Decimal

import pytest

from agents.llm.demo.details import find_body, find_reason, find_subject, find_topic
from agents.llm.demo.intents import Intent, understand
from agents.llm.demo.slots import find_slots

TODAY = date(2026, 11, 30)
ORDER = "019ad0b4-1111-7222-8333-444455556666"


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("encontre dois assentos abaixo de R$ 300 para sábado e reserve-os", Intent.HOLD),
        ("book 2 seats for Hamlet on december 12", Intent.HOLD),
        ("segure esses lugares", Intent.HOLD),
        ("Preciso de 3 ingressos para o show da Marisa Monte", Intent.SEATS),
        ("do you have 4 seats together?", Intent.SEATS),
        ("tem algum show de jazz nesse fim de semana?", Intent.EVENTS),
        ("what's on this weekend?", Intent.EVENTS),
        ("o que tem pra fazer hoje à noite?", Intent.EVENTS),
        ("Hamlet", Intent.EVENTS),
        ("pode comprar", Intent.BUY),
        ("sim, pode comprar", Intent.BUY),
        ("fecha a compra", Intent.BUY),
        ("quero pagar", Intent.BUY),
        ("buy it", Intent.BUY),
        ("go ahead", Intent.BUY),
        ("yes, buy them", Intent.BUY),
        ("libere a reserva", Intent.RELEASE),
        ("cancele a reserva", Intent.RELEASE),
        ("release the seats", Intent.RELEASE),
        ("quais são minhas reservas?", Intent.MY_HOLDS),
        ("meu pedido", Intent.ORDER),
        (f"status do pedido {ORDER}", Intent.ORDER),
        (ORDER, Intent.ORDER),
        ("where is my order?", Intent.ORDER),
        ("quero o reembolso porque não posso ir", Intent.REFUND),
        ("quero devolver e receber o dinheiro de volta", Intent.REFUND),
        ("desisti da compra, quero estorno", Intent.REFUND),
        ("cancel my order", Intent.REFUND),
        ("can I get my money back?", Intent.REFUND),
        ("mande um e-mail para ana@example.com", Intent.EMAIL),
        ("send an email to bob@example.com", Intent.EMAIL),
        ("abra um chamado", Intent.TICKET),
        ("quero falar com um atendente", Intent.TICKET),
        ("I want to talk to a human", Intent.TICKET),
        ("oi", Intent.GREET),
        ("good morning", Intent.GREET),
        ("tudo bem?", Intent.HOW_ARE_YOU),
        ("obrigado!", Intent.THANKS),
        ("thanks", Intent.THANKS),
        ("quem é você?", Intent.WHO),
        ("are you a bot?", Intent.WHO),
        ("me ajuda?", Intent.HELP),
        ("what can you do", Intent.HELP),
        ("tchau", Intent.BYE),
        ("sim", Intent.YES),
        ("yes please", Intent.YES),
        ("não", Intent.NO),
        ("not now", Intent.NO),
        ("deixa pra lá", Intent.NEVER_MIND),
        ("never mind", Intent.NEVER_MIND),
        ("qual a capital da França?", Intent.UNKNOWN),
        ("???", Intent.UNKNOWN),
    ],
)
def test_intents_in_both_languages(text: str, intent: Intent) -> None:
    assert understand(text, TODAY).intent is intent


@pytest.mark.parametrize(
    ("text", "query", "city"),
    [
        ("encontre dois assentos abaixo de R$ 300 para sábado e reserve-os", "", ""),
        ("Oi! Preciso de 3 ingressos para o show da Marisa Monte em São Paulo, até 250 reais",
         "Marisa Monte", "São Paulo"),
        ("tem algum show de jazz nesse fim de semana?", "jazz", ""),
        ("ingressos para O Lago dos Cisnes dia 12", "Lago dos Cisnes", ""),
        ("me mostre os eventos em dezembro no Rio", "", "Rio de Janeiro"),
        ("shows em Recife", "", "Recife"),
        ("o que tem em Pirenópolis amanhã?", "", "Pirenópolis"),
        ("find me a couple of tickets for the Foo Fighters next friday under R$ 300",
         "Foo Fighters", ""),
        ("any rock concerts in december?", "rock", ""),
        ("what's on this weekend in São Paulo?", "", "São Paulo"),
        ("2 lugares na pista para o rock na praça", "rock na praça", ""),
        ("eventos no sábado, por favor", "", ""),
        ("2 lugares no máximo 100 reais cada", "", ""),
    ],
)  # fmt: skip
def test_the_query_is_what_the_wish_is_about(text: str, query: str, city: str) -> None:
    slots = find_slots(text, TODAY)
    assert (slots.query, slots.city) == (query, city)


def test_all_slots_of_one_sentence_become_the_arguments_of_the_search() -> None:
    text = "quero 2 ingressos de jazz em Curitiba entre sexta e domingo por no máximo R$ 150,50"
    slots = find_slots(text, TODAY)
    assert slots.quantity == 2
    assert slots.search_arguments() == {
        "query": "jazz",
        "date_from": "2026-12-04",
        "date_to": "2026-12-06",
        "city": "Curitiba",
        "max_price_brl": 150.5,
    }


def test_a_total_is_shared_by_the_seats() -> None:
    slots = find_slots("3 lugares até R$ 500 no total", TODAY)
    assert slots.seat_price == Decimal("166.67")


def test_newer_words_replace_older_ones_and_keep_the_rest() -> None:
    older = find_slots("2 ingressos de jazz no sábado até R$ 100", TODAY)
    merged = older.merged(find_slots("e no domingo?", TODAY))
    assert merged.search_arguments() == {
        "query": "jazz",
        "date_from": "2026-12-06",
        "date_to": "2026-12-06",
        "max_price_brl": 100,
    }
    assert merged.quantity == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("quero o reembolso porque não posso ir", "não posso ir"),
        ("Refund please, because I'm sick.", "I'm sick"),
        ("não vou poder ir, quero reembolso", "não vou poder ir"),
        ("estorno. Motivo: comprei a data errada!", "comprei a data errada"),
        ("can I get my money back? I can't go", "can I get my money back? I can't go"),
        ("quero reembolso", ""),
    ],
)
def test_the_reason_is_in_the_fans_words(text: str, reason: str) -> None:
    assert find_reason(text) == reason


def test_an_e_mail_is_taken_apart() -> None:
    text = "mande um e-mail para ana@example.com com o assunto Ingressos dizendo que chego às 20h"
    assert understand(text, TODAY).email == "ana@example.com"
    assert (find_subject(text), find_body(text)) == ("Ingressos", "chego às 20h")


def test_the_topic_of_a_support_request() -> None:
    assert find_topic("abra um chamado sobre a cadeira quebrada") == "a cadeira quebrada"
    assert find_topic("abra um chamado") == ""


def test_a_very_long_message_is_read_from_its_beginning() -> None:
    said = understand("2 ingressos para sábado " + "bla " * 25_000, TODAY)
    assert said.intent is Intent.SEATS
    assert len(said.text) == 2_000

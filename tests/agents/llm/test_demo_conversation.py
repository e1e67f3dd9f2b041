"""Whole conversations with the demo model, over a box office in memory."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.demo.phrases import QUESTIONS
from agents.llm.demo.plan import reply_blocks
from agents.llm.wire import TextBlock, ToolUseBlock
from tests.support.demo_stage import (
    ANONYMOUS_TOOLS,
    SYSTEM,
    TOOLS,
    BoxOffice,
    Stage,
    error,
    event,
    seat_id,
)

HOLD_IT = "encontre dois assentos abaixo de R$ 300 para sábado e reserve-os"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}")


def tools_called(stage: Stage) -> list[str]:
    return [name for name, _ in stage.office.calls]


def question(key: str, language: str = "pt") -> str:
    return QUESTIONS[key][language == "en"]


# The main path


@pytest.mark.parametrize("wraps", [False, True])
def test_find_hold_buy_and_refund_in_portuguese(wraps: bool) -> None:
    stage = Stage(wraps=wraps)
    answer = stage.say(HOLD_IT)
    jazz = stage.office.events[0]["id"]
    assert stage.office.calls == [
        (
            "search_events",
            {"date_from": "2026-12-05", "date_to": "2026-12-05", "max_price_brl": 300},
        ),
        (
            "search_seats",
            {"event_id": jazz, "quantity": 2, "max_price_brl": 300, "adjacent": True},
        ),
        ("hold_seats", {"event_id": jazz, "seat_ids": [seat_id(1, "C", 10), seat_id(1, "C", 11)]}),
    ]
    assert "Plateia, fila C, assentos 10 e 11" in answer
    assert "**Noite de Jazz**, sábado, 5 de dezembro, às 21h" in answer
    assert "R$ 240,00" in answer
    assert "12:10" in answer
    assert not UUID.search(answer)

    answer = stage.say("pode comprar")
    (order,) = stage.office.made("place_order")
    assert order == {"hold_id": "b0000000-0000-7000-8000-000000000001"}
    assert "Compra concluída" in answer
    assert "`0a000000-0000-7000-8000-000000000002`" in answer

    answer = stage.say("quero o reembolso porque não posso ir")
    assert stage.office.made("refund_order") == [
        {"order_id": "0a000000-0000-7000-8000-000000000002", "reason": "não posso ir"}
    ]
    assert "O reembolso de R$ 240,00 foi feito" in answer


def test_find_hold_buy_and_refund_in_english() -> None:
    stage = Stage()
    answer = stage.say("find two seats under R$ 300 for saturday and hold them")
    assert "I'm holding Plateia, row C, seats 10 and 11" in answer
    assert "Saturday, December 5, at 9:00 PM: R$ 240.00" in answer
    assert answer.endswith(question("buy", "en"))
    assert "Purchase complete" in stage.say("yes please")
    assert "Status: **paid**" in stage.say("where is my order?")
    assert stage.say("I want a refund") == question("reason", "en")
    assert "The refund of R$ 240.00 is done" in stage.say("I'm sick")
    assert stage.office.made("refund_order")[0]["reason"] == "I'm sick"


# Finding


def test_events_are_listed_by_date_and_choosing_leads_to_seats() -> None:
    stage = Stage()
    answer = stage.say("quais shows tem no fim de semana?")
    assert stage.office.calls == [
        ("search_events", {"date_from": "2026-12-05", "date_to": "2026-12-06"})
    ]
    assert "1. **Noite de Jazz**" in answer
    assert "3. **Rock na Praça** — domingo, 6 de dezembro, às 21h" in answer
    assert "a partir de R$ 60,00" in answer

    assert question("quantity") in stage.say("a terceira opção")
    answer = stage.say("dois, por favor")
    assert stage.office.made("search_seats") == [
        {"event_id": stage.office.events[4]["id"], "quantity": 2, "adjacent": True}
    ]
    assert answer.endswith(question("which_option"))
    assert "2. Plateia, fila D, assentos 10 e 11: R$ 280,00" in answer
    assert "Reservei Plateia, fila D" in stage.say("opção 2")
    assert "hold_seats" in tools_called(stage)


def test_a_follow_up_changes_only_what_it_names() -> None:
    stage = Stage()
    stage.say("shows em São Paulo no sábado até 200 reais")
    stage.say("e no domingo?")
    assert stage.office.made("search_events")[-1] == {
        "date_from": "2026-12-06",
        "date_to": "2026-12-06",
        "city": "São Paulo",
        "max_price_brl": 200,
    }
    stage.say("quais peças tem em dezembro?")
    assert stage.office.made("search_events")[-1] == {
        "date_from": "2026-12-01",
        "date_to": "2026-12-31",
    }


def test_a_title_on_two_days_is_asked_about_and_the_day_decides() -> None:
    stage = Stage()
    answer = stage.say("reserve 2 ingressos para Hamlet")
    assert answer.endswith(question("which_event"))
    assert "hold_seats" not in tools_called(stage)
    answer = stage.say("o do dia 11")
    assert "Reservei" in answer
    assert stage.office.made("hold_seats")[0]["event_id"] == stage.office.events[2]["id"]


def test_a_missing_quantity_is_asked_for() -> None:
    stage = Stage()
    answer = stage.say("tickets for jazz")
    assert "**Noite de Jazz**" in answer
    assert answer.endswith(question("quantity", "en"))
    assert "Options for **Noite de Jazz**" in stage.say("2")
    assert stage.office.made("search_seats")[0]["quantity"] == 2


def test_a_day_and_a_quantity_in_one_answer_decide() -> None:
    stage = Stage()
    stage.say("Boa noite! Tem ingresso pra Hamlet?")
    answer = stage.say("dia 5, 2 pessoas")
    assert "Opções para **Hamlet**, sábado, 5 de dezembro" in answer
    assert "Reservei" in stage.say("a mais barata, por favor")


def test_a_number_alone_is_a_choice_or_after_one_event_a_quantity() -> None:
    stage = Stage()
    stage.say("quais eventos vocês têm?")
    assert "**Festival de Samba**" in stage.say("4")
    stage = Stage()
    stage.say("o que tem no domingo?")
    assert "assentos 10, 11, 12 e 13" in stage.say("4")


def test_a_position_that_the_list_has_not_is_asked_about_again() -> None:
    stage = Stage()
    stage.say("quais eventos vocês têm?")
    assert "A lista só vai até 5" in stage.say("a opção 9")
    assert "**Festival de Samba**" in stage.say("opção 4")


def test_nothing_by_that_name_offers_what_there_is() -> None:
    stage = Stage()
    answer = stage.say("show de sertanejo no sábado")
    assert [a.get("query") for a in stage.office.made("search_events")] == ["sertanejo", None]
    assert "Não encontrei nada para **sertanejo**" in answer
    assert "**Noite de Jazz**" in answer


def test_nothing_by_that_name_is_never_held_in_its_place() -> None:
    stage = Stage()
    answer = stage.say("reserve 2 ingressos de sertanejo no sábado")
    assert answer.endswith(question("which_event"))
    assert "hold_seats" not in tools_called(stage)


def test_a_genre_is_tried_in_the_other_language() -> None:
    stage = Stage()
    answer = stage.say("algum teatro em dezembro?")
    assert [a.get("query") for a in stage.office.made("search_events")] == ["teatro", "theatre"]
    assert "**Hamlet**" in answer


def test_no_event_at_all_is_said() -> None:
    stage = Stage(BoxOffice(events=[]))
    answer = stage.say(HOLD_IT)
    assert answer.startswith("Não encontrei nenhum evento em 5 de dezembro (sábado), até R$ 300,00")


def test_a_sold_out_event_is_passed_over() -> None:
    office = BoxOffice([event(1, "Lotado", "2026-12-05", seats_free=1),
                        event(2, "Vago", "2026-12-05")])  # fmt: skip
    stage = Stage(office)
    assert "**Vago**" in stage.say(HOLD_IT)
    assert office.made("search_seats")[0]["event_id"] == office.events[1]["id"]


def test_when_no_seats_fit_the_next_event_is_tried_and_then_it_is_said() -> None:
    office = BoxOffice()
    office.has_pairs = False
    stage = Stage(office)
    answer = stage.say(HOLD_IT)
    assert len(office.made("search_seats")) == 2
    assert answer.startswith("Não há 2 lugares juntos até R$ 300,00 para **Noite de Jazz**")
    assert "hold_seats" not in tools_called(stage)
    assert "Reservei" in stage.say("pode ser separados")
    assert office.made("search_seats")[-1]["adjacent"] is False


def test_any_will_do_takes_the_cheapest_event() -> None:
    stage = Stage()
    stage.say("reserve 2 ingressos")
    assert "**Rock na Praça**" in stage.say("qualquer um")


def test_more_seats_than_the_tool_takes_are_not_even_tried() -> None:
    limits = {"properties": {"quantity": {"type": "integer", "maximum": 6}}}
    stage = Stage(schemas={"search_seats": limits})
    assert "no máximo 6 lugares" in stage.say("reserve 9 lugares para sábado")
    assert tools_called(stage) == ["search_events"]
    assert "assentos 10, 11, 12, 13, 14 e 15" in stage.say("então 6 lugares")


# Holding


def test_lost_seats_are_looked_for_once_more() -> None:
    office = BoxOffice()
    office.lost_races = 1
    stage = Stage(office)
    answer = stage.say(HOLD_IT)
    assert tools_called(stage) == [
        "search_events", "search_seats", "hold_seats", "search_seats", "hold_seats",
    ]  # fmt: skip
    first, second = office.made("hold_seats")
    assert not set(first["seat_ids"]) & set(second["seat_ids"])
    assert "tinham acabado de sair" in answer
    assert "Reservei Plateia, fila D" in answer


def test_seats_lost_twice_are_not_tried_a_third_time() -> None:
    office = BoxOffice()
    office.lost_races = 9
    stage = Stage(office)
    answer = stage.say(HOLD_IT)
    assert len(office.made("hold_seats")) == 2
    assert "levados por outra pessoa" in answer


def test_release_gives_the_hold_back() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    assert "12:10" in stage.say("não")
    assert "Nada foi cobrado" in stage.say("libere a reserva")
    assert stage.office.made("release_hold") == [
        {"hold_id": "b0000000-0000-7000-8000-000000000001"}
    ]
    assert "nenhuma reserva ativa" in stage.say("pode comprar")
    assert "place_order" not in tools_called(stage)


def test_all_holds_are_released_in_one_turn() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.say("reserve 3 lugares para Rock na Praça no domingo")
    stage.say("libere todas as reservas")
    assert len(stage.office.made("release_hold")) == 2


def test_what_is_on_hold_is_told_without_a_call() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    before = len(stage.office.calls)
    assert "até **12:10**" in stage.say("quais são minhas reservas?")
    assert len(stage.office.calls) == before


def test_wanting_to_buy_tickets_is_not_yet_buying() -> None:
    stage = Stage()
    answer = stage.say("quero comprar dois ingressos para Noite de Jazz")
    assert "Reservei" in answer
    assert "place_order" not in tools_called(stage)


def test_buying_without_a_hold_asks_instead() -> None:
    stage = Stage()
    assert "nenhuma reserva ativa" in stage.say("pode comprar")
    assert stage.office.calls == []


def test_an_expired_hold_is_offered_again() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.office.answer("place_order", error("hold_expired"))
    stage.office.taken.clear()
    answer = stage.say("pode comprar")
    assert "A reserva expirou" in answer
    assert answer.endswith(question("hold_again"))
    assert "Reservei" in stage.say("sim")
    assert stage.office.made("search_seats")[-1]["quantity"] == 2


# Orders and messages


def test_order_status_asks_for_the_number_when_it_knows_none() -> None:
    order_id = "019ad0b4-1111-7222-8333-444455556666"
    stage = Stage()
    assert stage.say("qual o status do meu pedido?") == question("which_order")
    assert "Situação: **pago**" in stage.say(order_id)
    assert stage.office.made("get_order_status") == [{"order_id": order_id}]


def test_an_order_that_is_not_found_is_said_without_jargon() -> None:
    stage = Stage()
    stage.office.answer("get_order_status", error("order_not_found"))
    answer = stage.say("status do pedido 019ad0b4-1111-7222-8333-444455556666")
    assert "Não encontrei o que você pediu" in answer
    assert "order_not_found" not in answer
    assert "xyz" not in answer


def test_refunds_are_listed_with_the_order() -> None:
    stage = Stage()
    order = {
        **stage.office.run("get_order_status", {"order_id": "x"}),
        "refunds": [{"id": "r", "amount_brl": 240, "status": "refunded", "reason": "doente"}],
        "status": "refunded",
    }
    stage.office.answer("get_order_status", order)
    answer = stage.say("status do pedido 019ad0b4-1111-7222-8333-444455556666")
    assert "Situação: **reembolsado**" in answer
    assert "Reembolso de R$ 240,00: **reembolsado**" in answer


def test_a_denied_refund_repeats_the_reason() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.say("pode comprar")
    message = "This was declined by a reviewer. Reason given: fora do prazo de 7 dias"
    stage.office.answer("refund_order", error("denied_by_reviewer", message))
    answer = stage.say("quero o reembolso porque não posso ir")
    assert answer == "O pedido foi negado: fora do prazo de 7 dias"
    assert len(stage.office.made("refund_order")) == 1


def test_an_approved_refund_says_who_approved() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.say("pode comprar")
    stage.office.answer(
        "refund_order",
        {
            "refund_id": "r",
            "order_id": "0a000000-0000-7000-8000-000000000002",
            "amount_brl": 240,
            "status": "refunded",
            "decision": {"approved_by": "reviewer"},
        },
    )
    answer = stage.say("quero reembolso porque adoeci")
    assert answer.startswith("A equipe aprovou. O reembolso de R$ 240,00")


@pytest.mark.parametrize(
    ("status", "words"),
    [("pending_approval", "aprovação da equipe"), ("pending_confirmation", "use o botão")],
)
def test_a_waiting_call_is_told_and_not_repeated(status: str, words: str) -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.office.answer("place_order", {"status": status})
    assert words in stage.say("pode comprar")
    assert words in stage.say("e aí, pode comprar?")
    assert len(stage.office.made("place_order")) == 1


def test_small_talk_while_a_call_waits_is_answered() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.office.answer("place_order", {"status": "pending_confirmation"})
    stage.say("pode comprar")
    assert "Por nada" in stage.say("obrigado")


def test_an_e_mail_is_sent_once_everything_is_known() -> None:
    stage = Stage()
    assert stage.say("mande um e-mail") == question("email_to")
    assert stage.say("ana@example.com") == question("email_body")
    assert "E-mail enviado para ana@example.com" in stage.say("oi Ana, chego às 20h")
    assert stage.office.made("send_email") == [
        {
            "to": "ana@example.com",
            "subject": "Mensagem da bilheteria",
            "body": "oi Ana, chego às 20h",
        }
    ]


def test_the_details_of_an_order_can_be_sent() -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.say("pode comprar")
    stage.say("mande um e-mail para ana@example.com com os detalhes do pedido")
    (sent,) = stage.office.made("send_email")
    assert "Noite de Jazz" in sent["body"]
    assert "R$ 240,00" in sent["body"]


def test_a_support_ticket_takes_the_fans_words() -> None:
    stage = Stage()
    assert stage.say("abra um chamado") == question("ticket_body")
    assert "Abri um chamado" in stage.say("a cadeira 12 está quebrada")
    assert stage.office.made("create_ticket")[0]["body"] == "a cadeira 12 está quebrada"


# Refusals, limits, small talk


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("rate_limited", "pedidos demais"),
        ("timeout", "não respondeu a tempo"),
        ("circuit_open", "não respondeu a tempo"),
        ("not_granted", "não permite"),
        ("sign_in_required", "entrar na sua conta"),
        ("needs_human", "pessoa da equipe"),
        ("invalid_arguments", "não aceitou os dados"),
        ("sales_closed", "encerradas"),
        ("hold_not_active", "não está mais ativa"),
        ("payment_declined", "pagamento não foi aceito"),
        ("approval_expired", "Ninguém decidiu"),
        ("approval_void", "condições mudaram"),
        ("denied_by_fan", "não fiz nada"),
        ("never_heard_of_it", "Algo deu errado"),
    ],
)
def test_errors_are_told_in_plain_words_and_not_tried_again(code: str, words: str) -> None:
    stage = Stage()
    stage.say(HOLD_IT)
    stage.office.answer("place_order", error(code))
    answer = stage.say("pode comprar")
    assert words in answer
    assert code not in answer
    assert "xyz" not in answer
    assert len(stage.office.made("place_order")) == 1


def test_an_anonymous_visitor_sees_seats_and_is_asked_to_sign_in() -> None:
    stage = Stage(tools=ANONYMOUS_TOOLS)
    answer = stage.say(HOLD_IT)
    assert "1. Plateia, fila C" in answer
    assert "entrar na sua conta" in answer
    for wish in ("a primeira", "pode comprar", "qual o status do meu pedido?", "quero reembolso"):
        assert "entrar na sua conta" in stage.say(wish), wish
    assert set(tools_called(stage)) <= set(ANONYMOUS_TOOLS)


def test_a_tool_of_another_tier_is_said_not_to_be_here() -> None:
    stage = Stage(tools=[tool for tool in TOOLS if tool != "send_email"])
    assert "Não consigo enviar e-mails" in stage.say("mande um e-mail para ana@example.com")


def test_without_tools_on_the_last_step_it_says_what_it_has() -> None:
    stage = Stage()
    answer = stage.say(HOLD_IT, max_steps=3)
    assert tools_called(stage) == ["search_events", "search_seats"]
    assert "precisei parar por aqui" in answer
    assert "1. Plateia, fila C" in answer


def test_calls_told_as_text_are_read_like_calls() -> None:
    stage = Stage()
    found = stage.office.run("search_events", {"date_from": "2026-12-05"})
    told = json.dumps(found, ensure_ascii=False)
    messages = [
        {"role": "user", "content": HOLD_IT},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": '[called search_events with {"x": 1}]'}],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "text",
                    "text": f'<tool_output tool="search_events">\n{told}\n</tool_output>',
                }
            ],
        },
    ]
    (block,) = reply_blocks({"model": "demo", "max_tokens": 99, "messages": messages})
    assert isinstance(block, TextBlock)
    assert "precisei parar por aqui" in block.text
    assert "**Noite de Jazz**" in block.text


def test_tool_choice_none_is_obeyed() -> None:
    stage = Stage()
    stage.messages.append({"role": "user", "content": HOLD_IT})
    (block,) = reply_blocks({**stage.request(), "tool_choice": {"type": "none"}})
    assert isinstance(block, TextBlock)


def test_a_message_in_the_middle_of_the_work_is_taken_up() -> None:
    stage = Stage()
    stage.messages.append({"role": "user", "content": HOLD_IT})
    (call,) = reply_blocks(stage.request())
    assert isinstance(call, ToolUseBlock)
    result = json.dumps(stage.office.run(call.name, dict(call.arguments)))
    stage.messages += [
        {"role": "assistant", "content": [call.as_json()]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": result},
                {"type": "text", "text": "na verdade no domingo"},
            ],
        },
    ]
    (again,) = reply_blocks(stage.request())
    assert isinstance(again, ToolUseBlock)
    assert again.arguments == {
        "date_from": "2026-12-06",
        "date_to": "2026-12-06",
        "max_price_brl": 300,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("oi", "Olá!"),
        ("hello", "Hello!"),
        ("obrigado", "Por nada"),
        ("quem é você?", "modo de demonstração"),
        ("who are you?", "demo mode"),
        ("tudo bem?", "Tudo ótimo"),
        ("tchau", "Até logo"),
        ("qual a capital da França?", "não entendi"),
        ("what is the capital of France?", "didn't get that"),
        ("me ajuda", "encontre dois assentos"),
        ("deixa pra lá", "Sem problemas"),
        ("sim", "Diga o que você quer"),
    ],
)
def test_small_talk_in_the_language_of_the_message(text: str, words: str) -> None:
    stage = Stage()
    assert words in stage.say(text)
    assert stage.office.calls == []


def test_the_language_of_the_last_message_that_shows_one_is_kept() -> None:
    stage = Stage()
    stage.say("hello")
    assert question("quantity", "en") in stage.say("Noite de Jazz tickets")
    assert "Options for" in stage.say("2")
    assert "Opções para" in stage.say("quero ver três lugares")


def test_the_prompts_language_is_used_when_nothing_was_said() -> None:
    rules = "Answer in the language of the fan's last message (English if it cannot be told)."
    stage = Stage()
    stage.messages.append({"role": "user", "content": "???"})
    (block,) = reply_blocks({**stage.request(), "system": f"{rules}\n{SYSTEM}"})
    assert isinstance(block, TextBlock)
    assert block.text.startswith("Sorry")


# Whatever is said


WORDS = re.findall(
    r"\S+",
    "oi sim não dois 2 três ingressos assentos reserve compre cancele a reserva pedido reembolso "
    "porque sábado amanhã 12/12 até R$ 200 jazz Hamlet em Recife segunda opção qualquer um e-mail "
    "ana@example.com chamado obrigado esse the first yes no buy hold tickets saturday refund ?",
)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([TOOLS, ANONYMOUS_TOOLS, ()]),
)
def test_every_conversation_ends_in_text_and_uses_only_ids_it_was_given(
    messages: list[str], tools: tuple[str, ...]
) -> None:
    stage = Stage(tools=tools)
    for text in messages:
        assert stage.say(text)
    known = json.dumps(stage.messages)
    for name, arguments in stage.office.calls:
        assert name in tools
        for key in ("event_id", "hold_id", "order_id"):
            if key in arguments:
                assert known.count(str(arguments[key])) > 1, "an id that no tool had returned"


@given(st.text(min_size=1, max_size=400).filter(lambda text: text.strip()))
def test_no_text_breaks_the_model(text: str) -> None:
    body: dict[str, Any] = {
        "model": "demo",
        "max_tokens": 100,
        "system": SYSTEM,
        "messages": [{"role": "user", "content": text}],
        "tools": [{"name": name, "input_schema": {}} for name in TOOLS],
    }
    blocks = reply_blocks(body)
    assert all(isinstance(block, ToolUseBlock) or block.text for block in blocks)

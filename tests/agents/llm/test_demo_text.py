"""What the demo model reads in a sentence: money, quantities, ordinals, language."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.demo import render
from agents.llm.demo.text import (
    bare_number,
    detect_language,
    find_email,
    find_max_price,
    find_ordinal,
    find_quantity,
    fold,
    parse_money,
    spell_out_numbers,
)

CENTAVOS = st.integers(min_value=1, max_value=99_999_999).map(lambda n: Decimal(n) / 100)


@given(st.text(max_size=200))
def test_folding_keeps_every_position(text: str) -> None:
    assert len(fold(text)) == len(text)
    assert len(spell_out_numbers(fold(text))) == len(text)


@given(st.text(max_size=300))
def test_no_text_breaks_the_reading(text: str) -> None:
    folded = fold(text)
    price, counted, ordinal = find_max_price(folded), find_quantity(folded), find_ordinal(folded)
    assert price is None or price.amount >= 0
    assert counted is None or counted[0] > 0
    assert ordinal is None or ordinal[0] != 0


@given(CENTAVOS)
def test_money_written_in_either_language_is_read_back(amount: Decimal) -> None:
    for language in ("pt", "en"):
        assert parse_money(render.money(amount, language).removeprefix("R$ ")) == amount


@given(
    CENTAVOS,
    st.sampled_from(
        ["abaixo de {}", "até {} por pessoa", "no máximo {}, por favor", "under {} each",
         "up to {} for saturday", "dois assentos por {}", "budget of {}"]
    ),
    st.sampled_from(["pt", "en"]),
)  # fmt: skip
def test_a_ceiling_is_found_whatever_the_amount(amount: Decimal, form: str, language: str) -> None:
    found = find_max_price(fold(form.format(render.money(amount, language))))
    assert found is not None
    assert found.amount == amount


@given(CENTAVOS, st.sampled_from(["abaixo de {}", "menos de {}", "at most {}", "under {}"]))
def test_a_ceiling_needs_no_currency(amount: Decimal, form: str) -> None:
    found = find_max_price(fold(form.format(f"{amount:.2f}".replace(".", ","))))
    assert found is not None
    assert found.amount == amount


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("abaixo de R$ 300", "300"),
        ("até 250 reais", "250"),
        ("under R$ 300", "300"),
        ("no máximo 1.200,50", "1200.50"),
        ("no máximo 1,200.50", "1200.50"),
        ("até 1.200", "1200"),
        ("abaixo de trezentos reais", "300"),
        ("até duzentos e cinquenta", "250"),
        ("under two hundred and fifty", "250"),
        ("até mil reais", "1000"),
        ("1,5 mil reais", "1500"),
        ("300 or less", "300"),
        ("mais barato que 80", "80"),
    ],
)
def test_prices_as_people_say_them(text: str, amount: str) -> None:
    found = find_max_price(fold(text))
    assert found is not None
    assert found.amount == Decimal(amount)


@pytest.mark.parametrize(
    "text",
    ["até sábado", "até 12/12", "até 12 de dezembro", "no máximo 2 ingressos", "até 4 pessoas",
     "até 20h", "acima de R$ 200", "mais de R$ 100", "2 assentos", "dia 12", "oi"],
)  # fmt: skip
def test_what_is_no_ceiling_is_not_taken_for_one(text: str) -> None:
    assert find_max_price(fold(text)) is None


def test_a_price_for_all_is_told_from_a_price_for_each() -> None:
    together = find_max_price(fold("até R$ 500 no total"))
    each = find_max_price(fold("até R$ 500 cada"))
    assert together is not None
    assert each is not None
    assert (together.is_total, each.is_total) == (True, False)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("dois assentos", 2),
        ("2 ingressos para sábado", 2),
        ("um par de ingressos", 2),
        ("a couple of tickets", 2),
        ("three tickets", 3),
        ("two adjacent seats", 2),
        ("para 4 pessoas", 4),
        ("para dois", 2),
        ("table for two", 2),
        ("somos 3", 3),
        ("reserve 2 para sábado", 2),
        ("um ingresso", 1),
        ("40 assentos", 40),
    ],
)
def test_quantities_as_people_say_them(text: str, count: int) -> None:
    found = find_quantity(fold(text))
    assert found is not None
    assert found[0] == count


@pytest.mark.parametrize(
    "text",
    ["para 2/12", "para 2 de dezembro", "abaixo de 300 reais", "quero um show", "R$ 2 ingressos",
     "para as 20h", "um evento", "sábado"],
)  # fmt: skip
def test_what_is_no_quantity_is_not_taken_for_one(text: str) -> None:
    assert find_quantity(fold(text)) is None


@pytest.mark.parametrize(
    ("text", "count"), [("2", 2), ("dois, por favor", 2), ("só três!", 3), ("just two please", 2)]
)
def test_a_bare_number_is_read(text: str, count: int) -> None:
    assert bare_number(fold(text)) == count


@pytest.mark.parametrize("text", ["dois eventos", "12/12", "sim", "", "2 reais"])
def test_more_than_a_number_is_no_bare_number(text: str) -> None:
    assert bare_number(fold(text)) is None


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a segunda opção", 2),
        ("option 2", 2),
        ("opção dois", 2),
        ("a segunda", 2),
        ("reserve a primeira", 1),
        ("the last one", -1),
        ("a mais barata", 1),
        ("não, a primeira", 1),
        ("quero o primeiro para 4 pessoas", 1),
    ],
)
def test_choices_from_a_list(text: str, position: int) -> None:
    found = find_ordinal(fold(text))
    assert found is not None
    assert found[0] == position


@pytest.mark.parametrize("text", ["segunda-feira", "na segunda tem show?"])
def test_monday_is_no_choice(text: str) -> None:
    assert find_ordinal(fold(text)) is None


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("encontre dois assentos abaixo de R$ 300 para sábado", "pt"),
        ("oi", "pt"),
        ("pode comprar", "pt"),
        ("find two seats under R$ 300 for saturday", "en"),
        ("buy it", "en"),
        ("hello", "en"),
        ("2", None),
        ("Hamlet", None),
        ("", None),
    ],
)
def test_the_language_of_a_message(text: str, language: str | None) -> None:
    assert detect_language(text) == language


def test_an_address_ends_before_the_full_stop() -> None:
    found = find_email("mande para joao.silva+x@exemplo.com.br.")
    assert found is not None
    assert found[0] == "joao.silva+x@exemplo.com.br"

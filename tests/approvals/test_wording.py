"""What a reviewer reads of a preview, in both languages; exact arguments stay exact."""

from typing import Any

import pytest
from django.utils.translation import override

from approvals import presentation, wording

SEAT = {"section": "Pista", "row": "A", "number": 12, "price_brl": 75.5}


@pytest.mark.parametrize(
    ("name", "value", "portuguese", "english"),
    [
        ("paid_brl", 1234.5, "R$\u00a01.234,50", "R$\u00a01,234.50"),
        ("paid_brl", 0, "R$\u00a00,00", "R$\u00a00.00"),
        ("status", "refunded", "reembolsado", "refunded"),
        ("subject", "refunded", "refunded", "refunded"),
        ("starts_at", "2026-12-05T16:00:00-03:00", "05/12/2026 16:00", "12/05/2026 4 p.m."),
        ("starts_at", "soon", "soon", "soon"),
        ("urgent", True, "sim", "yes"),
        ("urgent", False, "não", "no"),
        (
            "seats",
            [SEAT, SEAT | {"number": 13}],
            "setor: Pista · fila: A · número: 12 · preço: R$\u00a075,50\n"
            "setor: Pista · fila: A · número: 13 · preço: R$\u00a075,50",
            "section: Pista · row: A · number: 12 · price: R$\u00a075.50\n"
            "section: Pista · row: A · number: 13 · price: R$\u00a075.50",
        ),
    ],
)
def test_value_in_words(name: str, value: Any, portuguese: str, english: str) -> None:
    with override("pt-br"):
        assert wording.value_words(name, value) == portuguese
    with override("en"):
        assert wording.value_words(name, value) == english


@pytest.mark.parametrize("value", [None, 3, 2.5, [], ["a", "b"], [1, {"a": 2}]])
def test_value_without_words(value: Any) -> None:
    assert wording.value_words("count", value) is None


@pytest.mark.parametrize("value", [{"a": {"b": [1, None]}}, [{"a": [[]]}], {"": ""}])
def test_odd_values_are_shown_somehow(value: Any) -> None:
    assert isinstance(wording.value_words("x", value), str)


def test_identifiers_in_words() -> None:
    with override("pt-br"):
        assert wording.spoken("paid_brl") == "pago"
        assert wording.spoken("starts_at") == "começa em"
        assert wording.action_words("refund_order") == "Reembolsar pedido"
    with override("en"):
        assert wording.action_words("refund_order") == "Refund order"


@pytest.mark.parametrize("name", ["", "_", "_brl", "no_such_word"])
def test_unknown_identifier_is_shown_as_it_is(name: str) -> None:
    with override("pt-br"):
        assert wording.spoken(name) in {name, "no such word"}
        assert wording.action_words(name) in {name, "No such word", "Brl"}


def test_what_changed_is_told_by_the_values_not_by_their_words() -> None:
    preview = {"before": {"paid_brl": 1.001, "status": "x"}, "after": {"paid_brl": 1.0, "y": ""}}
    with override("en"):
        changes = {one.name: one.is_changed for one in presentation.changes_of(preview)}
    assert changes == {"paid": True, "status": True, "y": True}


def test_same_value_of_another_form_is_no_change() -> None:
    preview = {"before": {"paid_brl": 150.0}, "after": {"paid_brl": 150}}
    assert [change.is_changed for change in presentation.changes_of(preview)] == [False]


def test_arguments_stay_exact() -> None:
    arguments = {"status": "paid", "paid_brl": 5.0, "starts_at": "2026-12-05T16:00:00-03:00"}
    with override("pt-br"):
        shown = presentation.fields_of(arguments)
    assert [(one.name, one.value) for one in shown] == [
        ("status", "paid"),
        ("paid_brl", "5.0"),
        ("starts_at", "2026-12-05T16:00:00-03:00"),
    ]

"""Literals: whatever stands in one is text, and whatever stands beside one is read as code."""

from itertools import product

import cel
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from approvals.policies.bounds import ExpressionInvalid
from approvals.policies.expressions import context_of, expression_read
from approvals.policies.tokens import tokens_of

LOOP = "[1].map(x, x) == []"
PREFIXES = ["", "r", "R", "b", "B", "br", "bR", "Br", "BR"]
QUOTES = ['"', "'", '"""', "'''"]
PIECES = ['"', "'", "\\", "\\\\", "\\'", '\\"', "\\n", "\\x41", "\\101", "\n", "r", "b", " ", "//"]


def is_literal(text: str) -> bool:
    """Whether the library itself takes it for one literal."""
    try:
        value = cel.compile(f"[{text}]").execute(cel.Context())
    except Exception:  # noqa: BLE001 - whatever it says, it is none
        return False
    return isinstance(value[0], str | bytes)


@st.composite
def literals(draw: st.DrawFn) -> str:
    prefix, quote = draw(st.sampled_from(PREFIXES)), draw(st.sampled_from(QUOTES))
    pieces = draw(st.lists(st.sampled_from([*PIECES, LOOP]), max_size=5))
    made = prefix + quote + "".join(pieces) + quote
    assume(is_literal(made))
    return made


ENDS = ["", "\\\\", "\\", "\\'", '\\"']
OF_EVERY_KIND = [
    text
    for prefix, quote, end in product(PREFIXES, QUOTES, ENDS)
    if is_literal(text := f"{prefix}{quote}{end}{quote}")
]


def test_there_are_literals_of_every_kind() -> None:
    for prefix, quote in product(PREFIXES, QUOTES):
        begun = f"{prefix}{quote}"
        assert sum(text.startswith(begun) for text in OF_EVERY_KIND) >= 3, begun


@pytest.mark.parametrize("literal", OF_EVERY_KIND)
@pytest.mark.parametrize("last", QUOTES)
def test_a_loop_behind_a_literal_of_any_kind_is_seen(literal: str, last: str) -> None:
    source = f"{literal} == {literal} || {LOOP} || {last}{last} == {last}{last}"
    with pytest.raises(ExpressionInvalid, match="builds a list"):
        expression_read(source)


@settings(max_examples=600, deadline=None)
@given(literals(), literals(), literals())
def test_a_loop_among_literals_is_seen_at_its_place(first: str, second: str, third: str) -> None:
    begun = f"{first} == {second} || "
    with pytest.raises(ExpressionInvalid) as refused:
        expression_read(f"{begun}{LOOP} || {third} == {third}")
    assert "builds a list" in refused.value.message
    at = begun + "[1]."
    line, column = at.count("\n") + 1, len(at.rsplit("\n", 1)[-1]) + 1
    assert (refused.value.line, refused.value.column) == (line, column)


@settings(max_examples=600, deadline=None)
@given(literals())
def test_a_loop_within_a_literal_is_text(literal: str) -> None:
    assert [token.kind for token in tokens_of(literal)] == ["text"]
    assert expression_read(f"{literal} == {literal}").evaluate(context_of({}))


@settings(max_examples=600, deadline=None)
@given(st.lists(st.sampled_from([*PIECES, *PREFIXES, *QUOTES, "||", "==", LOOP]), max_size=12))
def test_what_is_let_through_has_no_loop_outside_its_literals(pieces: list[str]) -> None:
    source = " ".join(pieces)
    try:
        expression = expression_read(source)
    except ExpressionInvalid:
        return
    # The library compiles the loop to a sum of lists, and nothing here is written with “+”.
    assert "_+_" not in expression.program.functions()

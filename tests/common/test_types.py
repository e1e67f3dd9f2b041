"""Money and what PostgreSQL's jsonb can store."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from boxoffice.common.types import brl, is_too_deep, minor, storable, uuid7

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.integers(min_value=0, max_value=10**11))
def test_centavos_survive_the_way_through_json(amount: int) -> None:
    assert minor(json.loads(json.dumps(brl(amount)))) == amount


def test_half_a_centavo_is_rounded_up() -> None:
    assert minor("0.005") == 1
    assert minor(240.0) == 24_000


@given(JSON)
def test_what_is_stored_is_json_that_the_database_takes(value: object) -> None:
    text = json.dumps(storable(value), allow_nan=False)
    assert "\\u0000" not in text.replace("\\\\u0000", "")
    assert storable(json.loads(text)) == json.loads(text)


def test_identifiers_are_ordered_by_time() -> None:
    made = [uuid7() for _ in range(100)]
    assert made == sorted(made)
    assert {one.version for one in made} == {7}


def test_what_nests_too_deeply_is_found_without_recursion() -> None:
    deep: Any = "x"
    for _ in range(100_000):
        deep = {"a": [deep]}
    assert is_too_deep(deep)
    assert is_too_deep([1, {"a": deep}])
    assert not is_too_deep({"a": [{"b": [1, 2, {"c": None}]}] * 1_000})
    while isinstance(deep, dict):  # Python itself would take such a value apart by recursion
        deep = deep["a"].pop()

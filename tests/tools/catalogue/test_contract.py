"""What every built-in tool promises to the model and to the harness."""

import pytest

from tests.tools.catalogue.conftest import the_tool
from tools import guard, registry
from tools.spec import Gate, Risk

RISKS = {
    "search_events": (Risk.READ, Gate.NONE),
    "search_seats": (Risk.READ, Gate.NONE),
    "get_order_status": (Risk.READ, Gate.NONE),
    "hold_seats": (Risk.WRITE_REVERSIBLE, Gate.NONE),
    "release_hold": (Risk.WRITE_REVERSIBLE, Gate.NONE),
    "create_ticket": (Risk.WRITE_REVERSIBLE, Gate.NONE),
    "place_order": (Risk.DESTRUCTIVE, Gate.FAN),
    "refund_order": (Risk.DESTRUCTIVE, Gate.REVIEWER),
    "send_email": (Risk.DESTRUCTIVE, Gate.REVIEWER),
}
ARGUMENTS = {
    "search_events": ["query", "date_from", "date_to", "city", "max_price_brl"],
    "search_seats": ["event_id", "quantity", "max_price_brl", "adjacent"],
    "hold_seats": ["event_id", "seat_ids"],
    "release_hold": ["hold_id"],
    "place_order": ["hold_id"],
    "get_order_status": ["order_id"],
    "refund_order": ["order_id", "reason"],
    "send_email": ["to", "subject", "body"],
    "create_ticket": ["subject", "body"],
}


def test_the_nine_tools_are_there() -> None:
    assert set(RISKS) <= {spec.name for spec in registry.all_tools()}


@pytest.mark.parametrize("name", RISKS)
def test_risk_and_gate(name: str) -> None:
    spec = the_tool(name)
    assert (spec.risk, spec.gate) == RISKS[name]


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_schema_has_exactly_the_promised_arguments_each_described(name: str) -> None:
    schema = the_tool(name).input_schema()
    assert list(schema["properties"]) == ARGUMENTS[name]
    assert schema["additionalProperties"] is False
    assert all(part.get("description") for part in schema["properties"].values())


@pytest.mark.parametrize("name", RISKS)
def test_the_description_says_when_what_and_which_neighbour(name: str) -> None:
    text = the_tool(name).description
    assert text.count(". ") + text.count(".\n") + text.endswith(".") >= 3
    assert "Use it" in text
    assert "returns" in text
    assert any(other in text for other in RISKS if other != name)


@pytest.mark.parametrize("name", RISKS)
def test_the_examples_fit_the_schema(name: str) -> None:
    spec = the_tool(name)
    assert spec.examples
    for example in spec.examples:
        assert guard.parse(spec, example).model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("smuggled", ["tenant", "tenant_id", "user_id", "tier"])
def test_identity_is_no_argument(name: str, smuggled: str) -> None:
    spec = the_tool(name)
    with pytest.raises(guard.ArgumentsInvalid, match=f"{smuggled}: this tool has no such"):
        guard.parse(spec, {**spec.examples[0], smuggled: "x"})


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("hold_seats", {"seat_ids": ["019ae000-0000-7000-8000-000000000001"] * 40}, "at most 6"),
        ("hold_seats", {"seat_ids": []}, "seat_ids"),
        ("hold_seats", {"seat_ids": "all"}, "seat_ids"),
        ("search_seats", {"quantity": 7}, "quantity"),
        ("search_seats", {"quantity": "2"}, "quantity"),
        ("search_seats", {"event_id": "the first one"}, "event_id"),
        ("search_events", {"date_from": "sábado"}, "date_from"),
        ("search_events", {"query": "a\x00b"}, "query"),
        ("search_events", {"max_price_brl": -1}, "max_price_brl"),
        ("refund_order", {"reason": "  "}, "reason"),
        ("refund_order", {"reason": "x" * 501}, "reason"),
        ("send_email", {"to": "ana"}, "to"),
        ("send_email", {"subject": "Oi\nBcc: all@example.com"}, "subject"),
        ("create_ticket", {"subject": "\ud800 no"}, "arguments"),
    ],
)
def test_bad_arguments_name_the_field(name: str, arguments: dict[str, object], said: str) -> None:
    spec = the_tool(name)
    with pytest.raises(guard.ArgumentsInvalid, match=said):
        guard.parse(spec, {**spec.examples[0], **arguments})

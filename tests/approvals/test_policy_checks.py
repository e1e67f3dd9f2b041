"""Rules against a tenant: what would fail at run time is refused when they are saved."""

from collections.abc import Iterator

import pytest

from approvals.policies.checks import rules_check
from approvals.policies.document import RulesInvalid
from tests.approvals.conftest import PREVIEW, Cast

REFUND = '{{name: r, tools: [{tools}], tiers: [{tiers}], when: "{when}", effect: deny}}'


@pytest.fixture(autouse=True)
def _scope(in_arena: None) -> Iterator[None]:
    yield


def check(when: str, tools: str = "refund_order", tiers: str = "") -> list[str]:
    """The warnings about one rule."""
    _rules, warnings = rules_check(f"- {REFUND.format(tools=tools, tiers=tiers, when=when)}")
    return [str(one) for one in warnings]


def refused(when: str, tools: str = "refund_order", tiers: str = "") -> str:
    with pytest.raises(RulesInvalid) as error:
        check(when, tools, tiers)
    (problem,) = error.value.problems
    assert (problem.rule, problem.line) == ("r", 1)
    return problem.message


@pytest.mark.parametrize(
    ("when", "tools"),
    [
        ("args.reason.contains('chuva')", "refund_order"),
        ("has(args.query) && args.query == 'x'", "search_events"),
        ("has(args.nothing)", "refund_order"),
        ("has(args.reason) && args.reason == 'x'", "'*'"),
        ("has(args.seat_ids) && size(args.seat_ids) > 4", "hold_seats, search_seats"),
        ("fan.days_here < 7 && fan.role == 'fan' && !fan.is_anonymous", "'*'"),
        ("run.is_tainted && tool.risk == 'destructive'", "'*'"),
        ("tier.slug == 'pro' && tier.may_ask_reviewer && tenant.slug == 'x'", "'*'"),
        ("now.getHours() < 8 && now > timestamp('2020-01-01T00:00:00Z')", "'*'"),
        ("has(args.date_from) && timestamp(args.date_from + 'T00:00:00Z') > now", "search_events"),
    ],
)
def test_what_fits(cast: Cast, when: str, tools: str) -> None:
    assert check(when, tools) == []


@pytest.mark.parametrize(
    ("when", "tools", "said"),
    [
        ("args.amount > 5.0", "refund_order", "argument “amount”: order_id, reason"),
        ("args['amount'] > 5.0", "refund_order", "argument “amount”"),
        ("args.query == 'x'", "search_events", "“query” is not there. Ask first"),
        ("args.order_id == 'x'", "refund_order, hold_seats", "a call of hold_seats this fails"),
        ("amount > 5.0", "refund_order", "no variable “amount”"),
        ("fan.rolle == 'fan'", "refund_order", "“fan” has no field “rolle”"),
        ("preview.amount > 1.0", "refund_order", "“preview” has no field “amount”"),
        ("args.reason > 5", "refund_order", "this fails"),
        ("args.reason", "refund_order", "not true or false"),
        ("size(args.reason)", "refund_order", "gives int, not true or false"),
        ("timestamp(args.date_from) > now", "search_events", "this fails"),
        ("args.quantity / 0 == 1", "search_seats", "division by zero"),
        ("true", "refund_orders", "no tool “refund_orders”"),
    ],
)
def test_what_does_not_fit_is_refused(cast: Cast, when: str, tools: str, said: str) -> None:
    assert said in refused(when, tools)


def test_a_tier_has_to_exist(cast: Cast) -> None:
    assert "no tier “gold”" in refused("true", tiers="gold")
    assert check("true", tiers="pro, visitor") == []


def test_the_place_is_that_of_the_path(cast: Cast) -> None:
    text = (
        "rules:\n  - name: r\n    tools: [refund_order]\n    effect: deny\n"
        "    when: |\n      args.reason == 'x' &&\n        args.amount > 1.0\n"
    )
    with pytest.raises(RulesInvalid) as error:
        rules_check(text)
    assert [(one.line, one.column) for one in error.value.problems] == [(7, 9)]


def test_previews_are_those_that_the_tenant_has_seen(cast: Cast, ask: object) -> None:
    (warning,) = check("preview.after.refunded > 5.0")
    assert "has shown no preview here yet" in warning
    ask(preview=PREVIEW)  # type: ignore[operator]
    assert check("preview.after.refunded > 5.0") == []
    assert "“refundde” is not there" in refused("preview.after.refundde > 5.0")
    assert "“after” is not there" in refused("preview.after.refunded > 5.0", "search_events")

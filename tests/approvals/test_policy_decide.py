"""Random rules over random calls: the verdict is never weaker than the strictest rule that matches,
and an error never allows."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.policies.expressions import EvaluationFailed, context_of
from approvals.policies.rules import (
    ANY,
    MAX_TEXT,
    SEVERITY,
    Effect,
    Facts,
    Rule,
    Ruling,
    decide,
    policy_make,
)

TOOLS, TIERS = ("refund", "search"), ("free", "pro")
# What matches, what does not, and every way to fail: at compile time, and over these arguments.
CONDITIONS = (
    "true",
    "false",
    "args.n > 3",
    "has(args.n) && args.n > 3",
    "args.text == 'x'",
    "args.text.matches('^a+$')",
    "args.items.exists(i, i == 1)",
    "args.items.all(i, i > 0)",
    "preview.amount > 100.0",
    "preview.amount > args.n",
    "args.nope > 1",
    "args.n > 'a'",
    "args.n",
    "args.n / 0 == 1",
    "nobody",
    "args.n >",
    "[1].all(a, [2].all(b, a < b))",
    "",
    "x" * 5_000,
    "((((((((((((((((((((((((((((((((((((true))))))))))))))))))))))))))))))))))))",
)

rules = st.builds(
    Rule,
    name=st.uuids().map(str),
    tools=st.sampled_from([(ANY,), *((tool,) for tool in TOOLS), TOOLS]),
    tiers=st.sampled_from([(), *((tier,) for tier in TIERS)]),
    when=st.sampled_from(CONDITIONS) | st.text(max_size=30),
    effect=st.sampled_from(Effect),
    reviewers=st.integers(1, 3),
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text(max_size=10)
    | st.just("x" * 70_000)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["n", "text", "items", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
arguments = st.dictionaries(st.sampled_from(["n", "text", "items"]), values, max_size=3)


def _broken() -> Any:
    raise ValueError("no preview")


def make_facts(
    tool: str, tier: str, args: Any, amount: float | None, is_final: bool, may_ask: bool, anon: bool
) -> Facts:
    return Facts(
        tool=tool,
        tier=tier,
        default=Effect.APPROVE if is_final else Effect.ALLOW,
        is_destructive=is_final,
        is_anonymous=anon,
        may_ask_reviewer=may_ask,
        values={"args": args},
        preview=_broken if amount is None else lambda: {"amount": amount},
    )


facts = st.builds(
    make_facts,
    tool=st.sampled_from(TOOLS),
    tier=st.sampled_from(TIERS),
    args=arguments,
    amount=st.none() | st.floats(0, 1_000),
    is_final=st.booleans(),
    may_ask=st.booleans(),
    anon=st.booleans(),
)


def alone(rule: Rule, facts: Facts) -> Effect | None:
    """What one rule asks for, found out apart from the engine; an error asks for a reviewer."""
    if facts.tool not in rule.tools and ANY not in rule.tools:
        return None
    if rule.tiers and facts.tier not in rule.tiers:
        return None
    (ready,) = policy_make("x", [rule]).rules
    if ready.expression is None or len(str(facts.values)) > MAX_TEXT:
        return Effect.APPROVE
    known = dict(facts.values)
    try:
        if "preview" in ready.expression.variables:
            known["preview"] = facts.preview()
        holds = ready.expression.evaluate(context_of(known))
    except (EvaluationFailed, ValueError):
        return Effect.APPROVE
    return rule.effect if holds else None


@settings(max_examples=400, deadline=None)
@given(st.lists(rules, max_size=6), facts)
def test_no_verdict_is_weaker_than_the_strictest_match(made: list[Rule], call: Facts) -> None:
    ruling = decide(policy_make("x", made), call)
    wanted = [effect for rule in made if (effect := alone(rule, call)) is not None]
    least = max(wanted or [call.default], key=SEVERITY.__getitem__)
    assert SEVERITY[ruling.effect] >= SEVERITY[least]
    if call.is_destructive:
        assert ruling.effect is not Effect.ALLOW
    if ruling.effect is Effect.APPROVE:
        assert call.may_ask_reviewer
    if ruling.effect is Effect.CONFIRM:
        assert not call.is_anonymous


@settings(max_examples=200, deadline=None)
@given(rules, facts)
def test_an_error_never_allows(rule: Rule, call: Facts) -> None:
    failing = Rule(name="failing", tools=(ANY,), when="args.nope > 1", effect=Effect.ALLOW)
    ruling = decide(policy_make("x", [rule, failing]), call)
    assert ruling.effect in (Effect.APPROVE, Effect.DENY)
    if not call.may_ask_reviewer:
        assert ruling.effect is Effect.DENY


@settings(max_examples=100, deadline=None)
@given(st.lists(rules, max_size=6), facts, st.randoms())
def test_the_order_of_rules_does_not_matter(made: list[Rule], call: Facts, random: Any) -> None:
    mixed = list(made)
    random.shuffle(mixed)
    one, other = decide(policy_make("x", made), call), decide(policy_make("x", mixed), call)
    assert (one.effect, one.reviewers) == (other.effect, other.reviewers)


def test_the_most_reviewers_are_asked() -> None:
    made = [
        Rule(name=str(n), tools=(ANY,), when="true", effect=Effect.APPROVE, reviewers=n)
        for n in (1, 3, 2)
    ]
    call = make_facts("refund", "pro", {}, None, True, True, False)
    assert decide(policy_make("x", made), call) == Ruling(
        effect=Effect.APPROVE, code="policy_approve", rule="3", reviewers=3
    )


def test_a_preview_that_fails_is_tried_once() -> None:
    tried = []

    def fails() -> Any:
        tried.append(1)
        raise ValueError("no preview")

    made = [
        Rule(name=str(n), tools=(ANY,), when="preview.amount > 1.0", effect=Effect.ALLOW)
        for n in range(5)
    ]
    call = replace(make_facts("refund", "pro", {}, None, False, True, False), preview=fails)
    assert decide(policy_make("x", made), call).code == "policy_error"
    assert tried == [1]

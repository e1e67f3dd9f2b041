"""Conditions and arguments made to get past the rules: what errs, cannot be read or takes too long
never allows."""

from datetime import UTC, datetime
from typing import Any

import cel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from approvals.policies import rules
from approvals.policies.bounds import ExpressionInvalid
from approvals.policies.expressions import expression_read
from approvals.policies.rules import Effect, Facts, Rule, Ruling, decide, policy_make

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)
NUMBERS = [0, -1, 2**63 - 1, 2**63, 2**64, 2**2000, -(2**63), -(2**70), 0.1, -0.0, 1e308]
ODD = [float("nan"), float("inf"), None, True, False, "", "true", "3", "a\0b", "\ud800", "é", b"x"]
values = st.recursive(
    st.sampled_from([*NUMBERS, *ODD, {1, 2}, object, (1, "a"), "x" * 70_000]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["n", "text", "a", "", "é"]), inner, max_size=3)
        | st.dictionaries(st.sampled_from([1, True, None, 2**70, (1,)]), inner, max_size=2)
    ),
    max_leaves=5,
)
arguments = st.dictionaries(st.sampled_from(["n", "text", "items", "a"]), values, max_size=4)

ATOMS = st.sampled_from(
    [
        *("true", "false", "null", "0", "1", "-1", "3u", "1.5", "0x7f", "1e308", "''", "'true'"),
        *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "1e999"),
        *("args", "args.n", "args.text", "args.items", "args.a.n", "args['n']", "args[1]"),
        *("args.nope", "args.nope.more", "now", "nobody", ".args", "preview.n", "preview"),
        *("[]", "[args]", "[1, null, 'a']", "{}", "{'n': 1}", "{1: true}", "[true][0]", "b'\\xff'"),
        *("has(args.n)", "has(args.nope)", "has(args.nope.n)", "has(args)", "has(1)"),
        # Names that only look like the known ones.
        *("аrgs.n", "args.ｎ", "trսe", "TRUE", "True", "args.__class__", "ａrgs", "tru\u200be"),
        *("timestamp('x') > now", "duration(args.text)", "int(args.text)", "size(args.n)"),
    ]
)
SIGNS = ["&&", "||", "==", "!=", "<", ">", "<=", ">=", "+", "-", "*", "/", "%", "in"]
CALLS = ["size", "int", "uint", "double", "string", "bool", "dyn", "type", "timestamp", "has"]
METHODS = [
    "contains",
    "startsWith",
    "matches",
    "size",
    "getHours",
    "lowerAscii",
    "map",
    "existsOne",
]


def _wider(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return (
        st.builds("({} {} {})".format, inner, st.sampled_from(SIGNS), inner)
        | st.builds("{}({})".format, st.sampled_from(["!", "-", "!!", "--", *CALLS]), inner)
        | st.builds("({} ? {} : {})".format, inner, inner, inner)
        | st.builds("{}.{}({})".format, inner, st.sampled_from(METHODS), inner)
        | st.builds("{}.{}(x, {})".format, inner, st.sampled_from(["all", "exists"]), inner)
        | st.builds("{}[{}]".format, inner, inner)
        | st.builds("[{}, {}]".format, inner, inner)
        | st.builds("has({}.n)".format, inner)
    )


conditions = st.recursive(ATOMS, _wider, max_leaves=8) | st.text(max_size=40)


def call(args: Any, default: Effect) -> Facts:
    return Facts(
        tool="refund",
        tier="pro",
        default=default,
        is_destructive=False,
        is_anonymous=False,
        may_ask_reviewer=True,
        values={"args": args, "now": NOW},
        preview=lambda: {"n": 3},
    )


def ruled(when: str, args: Any, effect: Effect, default: Effect) -> Ruling:
    rule = Rule(name="r", tools=("refund",), when=when, effect=effect)
    return decide(policy_make("x", [rule]), call(args, default))


def answer(when: str, args: Any) -> Any:
    """What the library itself answers to what is let through; an error otherwise."""
    try:
        expression = expression_read(when)
    except ExpressionInvalid:
        return "unreadable"
    try:
        context = cel.Context({"args": args, "now": NOW, "preview": {"n": 3}})
        return expression.program.execute(context)
    except Exception as error:  # noqa: BLE001 - it is one, which is all that counts
        return error


@settings(max_examples=500, deadline=None)
@given(conditions, arguments)
def test_only_a_plain_true_allows(when: str, args: dict[str, Any]) -> None:
    ruling = ruled(when, args, Effect.ALLOW, Effect.APPROVE)
    if ruling.effect is Effect.ALLOW:
        assert answer(when, args) is True


@settings(max_examples=500, deadline=None)
@given(conditions, arguments, st.sampled_from([Effect.APPROVE, Effect.DENY, Effect.CONFIRM]))
def test_only_a_plain_false_lets_go_past(when: str, args: dict[str, Any], effect: Effect) -> None:
    ruling = ruled(when, args, effect, Effect.ALLOW)
    if ruling.effect is Effect.ALLOW:
        assert answer(when, args) is False


@pytest.mark.parametrize("effect", Effect)
@pytest.mark.parametrize(
    "when",
    [
        "args.nope > 1",
        "has(args.nope.more)",
        "args.n > '1'",
        "args.none > 1",
        "!args.none",
        "args.none",
        "args.nan > 500.0",
        "args.n + 9223372036854775807 > 0",
        "args.items[9] == 1",
        "args.items.all(x, x > 'a')",
        "args.items.exists(x, x.n)",
        "args.n.all(x, true)",
        "size(args.none) == 0",
        "args.text.matches('[')",
        "string(args.items) == ''",
        "'true'",
        "[true]",
        "TRUE",
        "trսe",
        "args.ｎ == 1",
        "1e999 > 0.0",
        "[1].all(x, [1].all(y, true))",
        "(" * 900 + "true" + ")" * 900,
        "true" + " && true" * 300,
        "",
        "\ud800",
    ],
)
def test_what_cannot_be_answered_goes_to_a_reviewer(when: str, effect: Effect) -> None:
    args = {"n": 1, "none": None, "nan": float("nan"), "items": [1, 2], "text": "a"}
    ruling = ruled(when, args, effect, Effect.ALLOW)
    assert (ruling.effect, ruling.code) == (Effect.APPROVE, "policy_error")


@pytest.mark.parametrize(
    "args",
    [
        {"n": "x" * 70_000},
        {"n": b"x" * 70_000},
        {"n": ("x" * 1_000,) * 99},
        {"n": list(range(200))},
        {"n": tuple(range(200))},
        {"n": [[[[[[[[[[[[[[1]]]]]]]]]]]]]]},
        {"x" * 70_000: 1},
        {None: 1},
        {"n": 2**2000},
        {"n": {1, 2}},
        {"n": "\ud800"},
    ],
)
def test_what_cannot_be_read_goes_to_a_reviewer(args: Any) -> None:
    ruling = ruled("true", args, Effect.ALLOW, Effect.ALLOW)
    assert (ruling.effect, ruling.code) == (Effect.APPROVE, "policy_error")


NOISE = st.sampled_from(["", " ", "\n", "\t", " // .all(\n", "\f"])
LOOPS = st.sampled_from(["all", "exists", "exists_one", "existsOne", "map", "filter"])
LITERALS = st.sampled_from(
    ["''", '""', "r'\\'", 'R"\\"', "''' ' '''", "b'\\''", "'\\\\'", "br'\\'"]
)


@st.composite
def loops(draw: st.DrawFn, inner: str) -> str:
    parts = [draw(st.sampled_from(["args.items", "[1]", "{'a': 1}"])), ".", draw(LOOPS), "("]
    parts += ["x", ",", draw(LITERALS), "!=", draw(LITERALS), "||", inner, ")"]
    return "".join(part + draw(NOISE) for part in parts)


@settings(max_examples=500, deadline=None)
@given(st.data())
def test_a_loop_in_a_loop_never_passes_and_never_allows(data: st.DataObject) -> None:
    within = data.draw(loops("true"))
    when = f"{data.draw(LITERALS)} != '-' && {data.draw(loops(within))} && '' != {within}"
    with pytest.raises(ExpressionInvalid):
        expression_read(when)
    assert ruled(when, {"items": [1]}, Effect.ALLOW, Effect.ALLOW).code == "policy_error"


def test_rules_that_take_too_long_together_are_not_asked_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = [
        Rule(name=f"r{number}", tools=("*",), when="true", effect=effect)
        for number, effect in enumerate([Effect.ALLOW, Effect.DENY, Effect.CONFIRM])
    ]
    assert decide(policy_make("x", made), call({}, Effect.ALLOW)).effect is Effect.DENY
    monkeypatch.setattr(rules, "MAX_SECONDS", -1.0)
    for rule in made:
        late = decide(policy_make("x", [rule]), call({}, Effect.ALLOW))
        assert (late.effect, late.code) == (Effect.APPROVE, "policy_error")
    apart = Rule(name="other", tools=("search",), when="true", effect=Effect.DENY)
    assert decide(policy_make("x", [apart]), call({}, Effect.ALLOW)).effect is Effect.ALLOW

"""Conditions: what is let through, what is refused and where, and what fails closed."""

from datetime import UTC, datetime

import pytest

from approvals.policies.bounds import MAX_LENGTH, ExpressionInvalid
from approvals.policies.expressions import (
    EvaluationFailed,
    context_of,
    expression_read,
)

FACTS = {
    "args": {"amount": 500.5, "n": 3, "seats": ["a", "b"], "text": "abc", "none": None},
    "now": datetime(2026, 11, 30, 22, 30, tzinfo=UTC),
}


def holds(source: str) -> bool:
    return expression_read(source).evaluate(context_of(FACTS))


@pytest.mark.parametrize(
    "source",
    [
        "true",
        "args.amount > 500.0 && args.n == 3",
        "args.n > 2.5",
        "!has(args.nope) || args.nope > 1",
        "args.seats.exists(s, s == 'b')",
        "args.seats.all(s, s.startsWith('a') || s.startsWith('b'))",
        "size(args.seats) == 2  // a remark",
        "args.text.matches('^[a-z]+$')",
        "now.getHours() >= 22 && now.getDayOfWeek() == 1",
        "args['amount'] > 500.0",
        "args.text == '''abc''' && 'a' in args.seats",
        "'a' in (args.seats) && 'b' in(args.seats)",
        "args.seats.exists_one(s, s == 'a')",
        r"args.text.matches(r'^a\.?b.$')",
        "args.n + 1 + 2 + 3 == 9",
    ],
)
def test_what_holds(source: str) -> None:
    assert holds(source)


@pytest.mark.parametrize(
    ("source", "line", "column", "said"),
    [
        ("args.n >", 1, 9, "Not valid CEL"),
        ("args.n > 1 &&\n  && true", 2, 3, "Not valid CEL"),
        ("", 1, 1, "missing"),
        ("x" * (MAX_LENGTH + 1), 1, 1, "at most 2000"),
        ("args.n > 1 && frob(args.n)", 1, 15, "no function “frob”"),
        ("args.text.lowerAscii() == 'a'", 1, 11, "no function “lowerAscii”"),
        ("[1].all(a, [2].all(b, a < b))", 1, 16, "inside a loop"),
        ("[1].exists(a, [[2].exists_one(b, true)] == [true])", 1, 20, "inside a loop"),
        ("args.seats.map(s, s) == []", 1, 12, "builds a list"),
        ("args.seats.filter(s, true) == []", 1, 12, "builds a list"),
        (" || ".join(["[1].all(a, true)"] * 5), 1, 85, "At most 4 loops"),
        ("[1].all(a, a + a + a + a > 1)", 1, 5, "sums"),
        ("[''].all(a, a.matches('x'))", 1, 6, "inside a loop"),
        ("[1].existsOne(a, [2].existsOne(b, true))", 1, 5, "no function “existsOne”"),
        ("args.seats . existsOne // a\n (a, true)", 1, 14, "no function “existsOne”"),
        ("all(args.seats, true)", 1, 1, "no function “all”"),
        ("[1].all(a, b, true)", 1, 5, "no function “all”"),
        ("args.has(args.n)", 1, 6, "no function “has”"),
        ("(args.seats + args.seats).all(a, true)", 1, 27, "worked out"),
        (f"args.seats.all(a, {' && '.join(['a == a'] * 5)})", 1, 12, "at most 8 values"),
        (" || ".join(["[1].all(a, a + a + a > 1)"] * 3), 1, 63, "at most 8 values"),
        (f"{'+'.join(['args.n'] * 18)} > 1", 1, 119, "At most 16 sums"),
        (f"args.n in [{','.join(['1'] * 102)}]", 1, 213, "at most 100 values"),
        ("args.text.matches(args.text)", 1, 11, "the pattern itself"),
        (r"args.text.matches('\\w+')", 1, 19, "take long"),
        (r"args.text.matches('\x5cw+')", 1, 19, "take long"),
        (r"args.text.matches('\X5cw+')", 1, 19, "take long"),
        (r"args.text.matches('\u005cw+')", 1, 19, "take long"),
        (r"args.text.matches('\U0000005cw+')", 1, 19, "take long"),
        (r"args.text.matches('\134w+')", 1, 19, "take long"),
        (r"args.text.matches('\x28?i:a)')", 1, 19, "take long"),
        (r"args.text.matches('(\?i)a')", 1, 19, "take long"),
        (r"args.text.matches(r'\w')", 1, 19, "take long"),
        (r"args.text.matches(R'''\pL''')", 1, 19, "take long"),
        ("args.text.matches('(a{90}){90}')", 1, 19, "take long"),
        ("now.getHours('UTC') > 3", 1, 5, "takes nothing"),
        ("(" * 30 + "true" + ")" * 30, 1, 25, "nested too deeply"),
        ("!" * 40 + "true", 1, 3, "nested too deeply"),
    ],
)
def test_what_is_refused_says_where(source: str, line: int, column: int, said: str) -> None:
    with pytest.raises(ExpressionInvalid) as refused:
        expression_read(source)
    assert (refused.value.line, refused.value.column) == (line, column), refused.value
    assert said in refused.value.message


@pytest.mark.parametrize(
    "source",
    [
        "args.nope > 1",
        "args.text > 1",
        "args.none > 1",
        "args.amount + 'a' == 'b'",
        "args.n",
        "args.text",
        "nobody == 1",
        "args.n / 0 == 1",
        "9223372036854775807 + args.n > 0",
        "args.seats[7] == 'a'",
        "timestamp(args.text) > now",
        "int(args.text) > 1",
        "duration(args.text) > duration('1s')",
    ],
)
def test_what_cannot_be_evaluated_fails(source: str) -> None:
    with pytest.raises(EvaluationFailed) as failed:
        holds(source)
    assert failed.value.message


def test_the_field_that_is_missing_is_named_with_its_place() -> None:
    expression = expression_read("args.n > 1 &&\n  args.nope > 1")
    with pytest.raises(EvaluationFailed) as failed:
        expression.evaluate(context_of(FACTS))
    assert failed.value.field == "nope"
    assert expression.place("nope") == (2, 3)


@pytest.mark.parametrize("value", [{1, 2}, "\ud800", object(), datetime.now])
def test_facts_that_cannot_be_read_fail(value: object) -> None:
    with pytest.raises(EvaluationFailed):
        context_of({"args": {"x": value}})


def test_a_panic_of_the_evaluator_fails_and_an_interruption_goes_on() -> None:
    expression = expression_read("true")

    class PanicException(BaseException):
        pass

    class Broken:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        def execute(self, context: object) -> bool:
            raise self.error

    broken = type(expression)(
        source="true",
        program=Broken(PanicException()),  # type: ignore[arg-type]
        variables=frozenset(),
        paths=(),
    )
    with pytest.raises(EvaluationFailed):
        broken.evaluate(context_of({}))
    stopped = type(expression)(
        source="true",
        program=Broken(KeyboardInterrupt()),  # type: ignore[arg-type]
        variables=frozenset(),
        paths=(),
    )
    with pytest.raises(KeyboardInterrupt):
        stopped.evaluate(context_of({}))


def test_variables_and_fields_are_known_without_an_evaluation() -> None:
    expression = expression_read("has(args.x) && args.seats.all(s, s == fan['role'] && tool.name)")
    assert expression.variables == {"args", "fan", "tool"}
    paths = {(path.names, path.is_asked) for path in expression.paths}
    assert paths == {
        (("args", "x"), True),
        (("args", "seats"), False),
        (("fan", "role"), False),
        (("tool", "name"), False),
    }

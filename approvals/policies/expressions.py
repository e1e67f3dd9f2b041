"""One condition of a rule, in CEL.

An evaluation cannot be interrupted and holds the interpreter, so what could take long is refused
before: a condition's length and depth, loops inside loops, loops that build lists, patterns that
are dear to compile. Measured for what is left, over the largest arguments that are read: well
below a millisecond. The library is untyped and has no syntax tree; the tokens are read here.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cel
from django.utils.translation import gettext as _

MAX_LENGTH = 2_000
MAX_DEPTH = 24
MAX_LOOPS = 4
MAX_SUMS_IN_LOOP = 8
MAX_PATTERN = 100

LOOPS = frozenset({"all", "exists", "exists_one"})
BUILDERS = frozenset({"map", "filter", "transformList", "transformMap"})
TIME_PARTS = frozenset(
    {
        "getFullYear",
        "getMonth",
        "getDate",
        "getDayOfMonth",
        "getDayOfWeek",
        "getDayOfYear",
        "getHours",
        "getMinutes",
        "getSeconds",
    }
)
FUNCTIONS = TIME_PARTS | {
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "timestamp",
    "duration",
    "int",
    "uint",
    "double",
    "string",
}


class ExpressionInvalid(ValueError):
    """A condition is refused; ``line`` and ``column`` count from 1 within its text."""

    def __init__(self, message: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


class EvaluationFailed(Exception):
    """A condition has no answer over these facts; ``field`` is the one that was missing, if any."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message, self.field = message, field


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text; ``kind`` is ``name``, ``text``, ``number`` or ``sign``."""

    kind: str
    text: str
    at: int


@dataclass(frozen=True, slots=True)
class Path:
    """A variable and the fields read from it, e.g. ``args.order_id``.

    ``is_asked``: it stands in ``has(…)``, which answers for the last field whether it is there.
    """

    names: tuple[str, ...]
    at: int
    is_asked: bool


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition that was let through."""

    source: str
    program: cel.Program
    variables: frozenset[str]
    paths: tuple[Path, ...]

    def evaluate(self, context: cel.Context) -> bool:
        """Whether the condition holds. Raises ``EvaluationFailed`` for whatever goes wrong."""
        try:
            answer = self.program.execute(context)
        except KeyError as error:
            field = str(error.args[0]) if error.args else ""
            raise EvaluationFailed(
                _("“%(field)s” is not there.") % {"field": field[:80]}, field=field
            ) from None
        except Exception as error:  # noqa: BLE001 - whatever it is, the call is gated
            raise EvaluationFailed(_shortened(error)) from None
        except BaseException as error:
            # A panic of the compiled core is no Exception; an interruption of ours goes on.
            if type(error).__name__ != "PanicException":
                raise
            raise EvaluationFailed(_("The condition cannot be evaluated.")) from None
        if answer is True or answer is False:
            return answer
        raise EvaluationFailed(
            _("The condition gives %(kind)s, not true or false.") % {"kind": type(answer).__name__}
        )

    def place(self, field: str) -> tuple[int, int]:
        """Line and column of the first mention of a field; the beginning when there is none."""
        for path in self.paths:
            if field in path.names[1:]:
                return position(self.source, path.at)
        return 1, 1


def _shortened(error: Exception) -> str:
    return str(error).split(". ")[0].strip()[:200] or type(error).__name__


def context_of(facts: Mapping[str, Any]) -> cel.Context:
    """The facts as conditions read them. Raises ``EvaluationFailed`` for what they cannot read."""
    context = cel.Context()
    for name, value in facts.items():
        context_add(context, name, value)
    return context


def context_add(context: cel.Context, name: str, value: Any) -> None:
    """One more fact. Raises as ``context_of``."""
    try:
        context.add_variable(name, value)
    except Exception as error:  # noqa: BLE001
        raise EvaluationFailed(
            _("%(name)s cannot be read: %(why)s") % {"name": name, "why": _shortened(error)}
        ) from None


def expression_read(source: str) -> Expression:
    """Read a condition. Raises ``ExpressionInvalid``."""
    if len(source) > MAX_LENGTH:
        raise ExpressionInvalid(
            _("A condition has at most %(most)d characters, not %(length)d.")
            % {"most": MAX_LENGTH, "length": len(source)}
        )
    tokens = list(tokens_of(source))
    _check_depth(source, tokens)
    program = _compiled(source)
    bound = _check_loops(source, tokens)
    _check_functions(source, tokens, program)
    _check_patterns(source, tokens)
    return Expression(
        source=source,
        program=program,
        variables=frozenset(program.variables()) - bound,
        paths=tuple(_paths(tokens, bound)),
    )


_TOKEN = re.compile(
    r"""
      (?P<skip>\s+|//[^\n]*)
    | (?P<text>[rRbB]{0,2}(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    | (?P<number>0[xX][0-9a-fA-F]+[uU]?|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[uU]?)
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<sign>&&|\|\||==|!=|<=|>=|.)
    """,
    re.VERBOSE | re.DOTALL,
)


def tokens_of(source: str) -> Iterator[Token]:
    """The pieces of a text, spaces and comments left out; never fails."""
    for match in _TOKEN.finditer(source):
        kind = match.lastgroup or ""
        if kind != "skip":
            yield Token(kind, match[0], match.start())


def position(source: str, at: int) -> tuple[int, int]:
    """Line and column, from 1, of an offset."""
    before = source[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def _refuse(source: str, at: int, message: str) -> ExpressionInvalid:
    line, column = position(source, at)
    return ExpressionInvalid(message, line=line, column=column)


def _check_depth(source: str, tokens: list[Token]) -> None:
    depth = signs = 0
    for token in tokens:
        depth += (token.text in {"(", "[", "{"}) - (token.text in {")", "]", "}"})
        signs = signs + 1 if token.text in {"!", "-", "?"} else 0
        if depth > MAX_DEPTH or signs > 2:
            raise _refuse(source, token.at, _("This is nested too deeply."))


_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")


def _compiled(source: str) -> cel.Program:
    if not source.strip():
        raise ExpressionInvalid(_("A condition is missing; “true” always holds."))
    try:
        return cel.compile(source)
    except ValueError as error:
        match = _PLACE.search(str(error))
        if match is None:
            raise ExpressionInvalid(_shortened(error)) from None
        said = match[3].split(" expecting ")[0]
        raise ExpressionInvalid(
            _("Not valid CEL: %(said)s") % {"said": said}, line=int(match[1]), column=int(match[2])
        ) from None
    except Exception as error:  # noqa: BLE001 - the library says not what else it raises
        raise ExpressionInvalid(_shortened(error)) from None


def _is_method(tokens: list[Token], index: int) -> bool:
    """Whether the name at ``index`` is called on something: ``….name(``."""
    return (
        0 < index < len(tokens) - 1
        and tokens[index - 1].text == "."
        and tokens[index + 1].text == "("
    )


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].text in {"(", "[", "{"}) - (tokens[index].text in {")", "]", "}"})
        if depth == 0:
            return index
    return len(tokens) - 1


def _check_loops(source: str, tokens: list[Token]) -> frozenset[str]:
    """Refuse what takes long; returns the names that loops bind."""
    bound: set[str] = set()
    end = count = 0
    for index, token in enumerate(tokens):
        if token.kind != "name" or not _is_method(tokens, index):
            continue
        if token.text in BUILDERS:
            said = _("“%(name)s” builds a list and may take long; use all, exists or exists_one.")
            raise _refuse(source, token.at, said % {"name": token.text})
        if token.text not in LOOPS:
            continue
        count += 1
        if index < end:
            raise _refuse(source, token.at, _("A loop inside a loop may take very long."))
        if count > MAX_LOOPS:
            said = _("At most %(most)d loops in one condition.") % {"most": MAX_LOOPS}
            raise _refuse(source, token.at, said)
        end = _closing(tokens, index + 1)
        inside = tokens[index + 2 : end]
        if sum(one.text == "+" for one in inside) > MAX_SUMS_IN_LOOP:
            raise _refuse(source, token.at, _("Too many sums inside a loop."))
        if any(one.text == "matches" for one in inside):
            raise _refuse(source, token.at, _("“matches” inside a loop may take long."))
        if inside:
            bound.add(inside[0].text)
    return frozenset(bound)


def _check_functions(source: str, tokens: list[Token], program: cel.Program) -> None:
    named = {name for name in program.functions() if name[0].isalpha()}
    unknown = named - FUNCTIONS
    for index, token in enumerate(tokens):
        if token.kind != "name" or tokens[index + 1 : index + 2][:1] == []:
            continue
        if tokens[index + 1].text != "(":
            continue
        if token.text in unknown:
            said = _("There is no function “%(name)s”. Known: %(known)s.")
            known = ", ".join(sorted(FUNCTIONS | LOOPS | {"has"}))
            raise _refuse(source, token.at, said % {"name": token.text, "known": known})
        if token.text in TIME_PARTS and tokens[index + 2].text != ")":
            said = _("“%(name)s” takes nothing: now is in the tenant's time zone already.")
            raise _refuse(source, token.at, said % {"name": token.text})
    if unknown:  # called in a way that the tokens do not show
        raise ExpressionInvalid(
            _("There is no function “%(name)s”. Known: %(known)s.")
            % {"name": sorted(unknown)[0], "known": ", ".join(sorted(FUNCTIONS))}
        )


# Classes of Unicode are compiled anew at each evaluation, for milliseconds; so are repetitions.
_DEAR = re.compile(r"\\[wWdDsSbBpP]|\{|\(\?")


def _check_patterns(source: str, tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.text != "matches" or token.kind != "name":
            continue
        after = tokens[index + 1 : index + 4]
        is_literal = (
            _is_method(tokens, index)
            and [one.text for one in (after[0], after[-1])] == ["(", ")"]
            and len(after) == 3
            and after[1].kind == "text"
        )
        if not is_literal:
            said = _("“matches” is written value.matches('pattern'), with the pattern itself.")
            raise _refuse(source, token.at, said)
        pattern = after[1].text
        if len(pattern) > MAX_PATTERN or _DEAR.search(pattern):
            said = _(
                "A pattern has at most %(most)d characters, and classes like [A-Za-z0-9_] in the "
                "place of \\w, \\d, \\s, \\b, \\p, (?…) and {…}, which take long."
            )
            raise _refuse(source, after[1].at, said % {"most": MAX_PATTERN})


def _paths(tokens: list[Token], bound: frozenset[str]) -> Iterator[Path]:
    index = 0
    while index < len(tokens):
        token = tokens[index]
        is_root = token.kind == "name" and not (index and tokens[index - 1].text == ".")
        if not is_root or token.text in bound or _calls(tokens, index):
            index += 1
            continue
        names, after = _fields(tokens, index)
        before = [one.text for one in tokens[max(0, index - 2) : index]]
        follows = tokens[after].text if after < len(tokens) else ""
        is_asked = before == ["has", "("] and follows == ")"
        yield Path(names=names, at=token.at, is_asked=is_asked)
        index = after


def _calls(tokens: list[Token], index: int) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].text == "("


def _fields(tokens: list[Token], root: int) -> tuple[tuple[str, ...], int]:
    """The names of a path, and the index behind it: ``a.b`` and ``a['b']`` alike."""
    names, index = [tokens[root].text], root + 1
    while index + 1 < len(tokens):
        sign, name = tokens[index], tokens[index + 1]
        if sign.text == "." and name.kind == "name" and not _calls(tokens, index + 1):
            names.append(name.text)
            index += 2
        elif sign.text == "[" and name.kind == "text" and _ends(tokens, index + 2):
            names.append(name.text.strip("rRbB").strip("\"'"))
            index += 3
        else:
            break
    return tuple(names), index


def _ends(tokens: list[Token], index: int) -> bool:
    return index < len(tokens) and tokens[index].text == "]"

"""What a condition may be made of: what could take long is refused before, with its place.

An evaluation cannot be interrupted and holds the interpreter. So a condition's length and depth,
its loops and what they read, its sums, its written lists and its patterns are bounded. Measured
for what is left, over the largest arguments that are read: below a millisecond for what people
write, 50 ms for what is made to be slow.
"""

import re
from collections.abc import Collection

from django.utils.translation import gettext as _

from approvals.policies.tokens import (
    Token,
    closing,
    is_called,
    is_method,
    is_root,
    position,
)

MAX_LENGTH = 2_000
MAX_DEPTH = 24
MAX_LOOPS = 4
MAX_READS_IN_LOOPS = 8
MAX_SUMS = 16
MAX_SUMS_IN_LOOP = 2
MAX_WRITTEN = 100
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
CALLED = FUNCTIONS | LOOPS | {"has"}
WORDS = frozenset({"true", "false", "null", "in"})


class ExpressionInvalid(ValueError):
    """A condition is refused; ``line`` and ``column`` count from 1 within its text."""

    def __init__(self, message: str, *, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


def _refuse(source: str, at: int, message: str) -> ExpressionInvalid:
    line, column = position(source, at)
    return ExpressionInvalid(message, line=line, column=column)


def length_check(source: str) -> None:
    """Refuse what is too long to be read. Raises ``ExpressionInvalid``, as do all here."""
    if len(source) > MAX_LENGTH:
        raise ExpressionInvalid(
            _("A condition has at most %(most)d characters, not %(length)d.")
            % {"most": MAX_LENGTH, "length": len(source)}
        )


def depth_check(source: str, tokens: list[Token]) -> None:
    """Refuse what is nested too deeply to be compiled."""
    depth = signs = 0
    for token in tokens:
        depth += (token.text in {"(", "[", "{"}) - (token.text in {")", "]", "}"})
        signs = signs + 1 if token.text in {"!", "-", "?"} else 0
        if depth > MAX_DEPTH or signs > 2:
            raise _refuse(source, token.at, _("This is nested too deeply."))


def cost_check(source: str, tokens: list[Token], functions: Collection[str]) -> frozenset[str]:
    """Refuse what takes long; returns the names that loops bind.

    ``functions`` are those of the compiled condition: what loops are compiled to has other names.
    """
    bound = _check_loops(source, tokens)
    _check_sizes(source, tokens)
    _check_functions(source, tokens, functions)
    _check_patterns(source, tokens)
    return bound


def _check_loops(source: str, tokens: list[Token]) -> frozenset[str]:
    bound: set[str] = set()
    end = count = reads = 0
    for index, token in enumerate(tokens):
        if token.kind != "name" or not is_method(tokens, index):
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
        if index > 1 and tokens[index - 2].text == ")":
            said = _("A loop goes over a field or a written list, not over what is worked out.")
            raise _refuse(source, token.at, said)
        end = closing(tokens, index + 1)
        inside = tokens[index + 2 : end]
        reads += sum(_reads(tokens, one) for one in range(index + 3, end))
        if reads > MAX_READS_IN_LOOPS:
            said = _("Loops read at most %(most)d values.") % {"most": MAX_READS_IN_LOOPS}
            raise _refuse(source, token.at, said)
        if sum(one.text == "+" for one in inside) > MAX_SUMS_IN_LOOP:
            raise _refuse(source, token.at, _("Too many sums inside a loop."))
        if any(one.text == "matches" for one in inside):
            raise _refuse(source, token.at, _("“matches” inside a loop may take long."))
        if inside:
            bound.add(inside[0].text)
    return frozenset(bound)


def _reads(tokens: list[Token], index: int) -> bool:
    """Whether a variable is read at ``index``: each time it is copied whole."""
    return is_root(tokens, index) and tokens[index].text not in WORDS


def _check_sizes(source: str, tokens: list[Token]) -> None:
    """A sum copies what stands before it; a list of many values is copied at every turn."""
    sums = [token.at for token in tokens if token.text == "+"]
    if len(sums) > MAX_SUMS:
        said = _("At most %(most)d sums in one condition.") % {"most": MAX_SUMS}
        raise _refuse(source, sums[MAX_SUMS], said)
    commas = [token.at for token in tokens if token.text == ","]
    if len(commas) > MAX_WRITTEN:
        said = _("A condition writes out at most %(most)d values.") % {"most": MAX_WRITTEN}
        raise _refuse(source, commas[MAX_WRITTEN], said)


def _check_functions(source: str, tokens: list[Token], functions: Collection[str]) -> None:
    """Refuse any function but the known ones; loops and ``has`` are known only in their place.

    By the tokens, because a loop under another name does not show in what was compiled, and by
    what was compiled, because there a loop with too few or too many parts is a function.
    """
    unknown = {name for name in functions if name[0].isalpha()} - FUNCTIONS
    for index, token in enumerate(tokens):
        if token.kind != "name" or token.text == "in" or not is_called(tokens, index):
            continue
        if token.text not in CALLED or token.text in unknown:
            raise _refuse(source, token.at, _no_function(token.text))
        if token.text in TIME_PARTS and tokens[index + 2].text != ")":
            said = _("“%(name)s” takes nothing: now is in the tenant's time zone already.")
            raise _refuse(source, token.at, said % {"name": token.text})
    if unknown:
        raise ExpressionInvalid(_no_function(min(unknown)))


def _no_function(name: str) -> str:
    known = ", ".join(sorted(CALLED))
    return _("There is no function “%(name)s”. Known: %(known)s.") % {"name": name, "known": known}


# Classes of Unicode are compiled anew at each evaluation, for milliseconds; so are repetitions.
# Characters written as numbers could be any of these, and so could “(?” that is written “(\?”.
_DEAR = re.compile(r"\\[wWdDsSbBpPxXuU0-7]|\{|\(\\*\?")


def _check_patterns(source: str, tokens: list[Token]) -> None:
    for index, token in enumerate(tokens):
        if token.text != "matches" or token.kind != "name":
            continue
        after = tokens[index + 1 : index + 4]
        is_literal = (
            is_method(tokens, index)
            and len(after) == 3
            and (after[0].text, after[1].kind, after[2].text) == ("(", "text", ")")
        )
        if not is_literal:
            said = _("“matches” is written value.matches('pattern'), with the pattern itself.")
            raise _refuse(source, token.at, said)
        pattern = after[1].text
        if len(pattern) > MAX_PATTERN or _DEAR.search(pattern):
            said = _(
                "A pattern has at most %(most)d characters, and classes like [A-Za-z0-9_] in the "
                "place of \\w, \\d, \\s, \\b, \\p, \\x, \\u, \\0, (?…) and {…}, which take long."
            )
            raise _refuse(source, after[1].at, said % {"most": MAX_PATTERN})

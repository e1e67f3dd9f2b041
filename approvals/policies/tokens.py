"""The pieces of a condition: the library has no syntax tree, so they are read here.

They are cut exactly as the library's own lexer cuts them. What it takes for code must never look
like the inside of a literal here, or a bound could be got around.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass


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


_ESCAPE = (
    r"""\\(?:[abfnrtv"'`?\\]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}"""
    r"""|[0-3][0-7]{2})"""
)
_TOKEN = re.compile(
    rf"""
      (?P<skip>\s+|//[^\n]*)
    | (?P<text>
        [bB]?[rR](?:\"\"\".*?\"\"\"|\'\'\'.*?\'\'\'|"[^"\r\n]*"|'[^'\r\n]*')
        | [bB]?(?:\"\"\"(?:{_ESCAPE}|[^\\])*?\"\"\"|\'\'\'(?:{_ESCAPE}|[^\\])*?\'\'\'
            |"(?:{_ESCAPE}|[^"\\\r\n])*"|'(?:{_ESCAPE}|[^'\\\r\n])*'))
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


def is_method(tokens: list[Token], index: int) -> bool:
    """Whether the name at ``index`` is called on something: ``….name(``."""
    return (
        0 < index < len(tokens) - 1
        and tokens[index - 1].text == "."
        and tokens[index + 1].text == "("
    )


def is_called(tokens: list[Token], index: int) -> bool:
    """Whether the name at ``index`` is that of a function or a loop: ``name(``."""
    return index + 1 < len(tokens) and tokens[index + 1].text == "("


def is_root(tokens: list[Token], index: int) -> bool:
    """Whether a variable stands at ``index``, or a word like ``true``: no field, no function."""
    is_field = index > 0 and tokens[index - 1].text == "."
    return tokens[index].kind == "name" and not is_field and not is_called(tokens, index)


def closing(tokens: list[Token], opening: int) -> int:
    """The index of the bracket that closes the one at ``opening``; the last one when none does."""
    depth = 0
    for index in range(opening, len(tokens)):
        depth += (tokens[index].text in {"(", "[", "{"}) - (tokens[index].text in {")", "]", "}"})
        if depth == 0:
            return index
    return len(tokens) - 1


def paths_of(tokens: list[Token], bound: frozenset[str]) -> Iterator[Path]:
    """What is read, in order, but for the names in ``bound``."""
    index = 0
    while index < len(tokens):
        token = tokens[index]
        if token.text in bound or not is_root(tokens, index):
            index += 1
            continue
        names, after = _fields(tokens, index)
        before = [one.text for one in tokens[max(0, index - 2) : index]]
        follows = tokens[after].text if after < len(tokens) else ""
        is_asked = before == ["has", "("] and follows == ")"
        yield Path(names=names, at=token.at, is_asked=is_asked)
        index = after


def _fields(tokens: list[Token], root: int) -> tuple[tuple[str, ...], int]:
    """The names of a path, and the index behind it: ``a.b`` and ``a['b']`` alike."""
    names, index = [tokens[root].text], root + 1
    while index + 1 < len(tokens):
        sign, name = tokens[index], tokens[index + 1]
        if sign.text == "." and name.kind == "name" and not is_called(tokens, index + 1):
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

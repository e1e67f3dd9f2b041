"""The words of the product: every one is marked, and every marked one is there in Portuguese."""

import ast
import gettext
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.template.base import Lexer, TokenType
from django.utils.translation import gettext as translate
from django.utils.translation import override, templatize

from boxoffice.config.devstack.environment import CHECKOUT

ROOMS = ("boxoffice", "approvals", "tools", "agents")
CATALOGUE = CHECKOUT / "locale/pt_BR/LC_MESSAGES/django.po"
TEMPLATES = sorted((CHECKOUT / "templates").rglob("*.*"))
# How many of a call's first arguments are the key of its words, and in which order.
CALLS = {
    **dict.fromkeys(["_", "gettext", "gettext_lazy", "gettext_noop"], ("id",)),
    **dict.fromkeys(["ngettext", "ngettext_lazy"], ("id", "plural")),
    **dict.fromkeys(["pgettext", "pgettext_lazy"], ("context", "id")),
    **dict.fromkeys(["npgettext", "npgettext_lazy"], ("context", "id", "plural")),
}
MARKED = re.compile(rf"\b({'|'.join(CALLS)})\((?=\s*u?['\"])")
PLACES = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w*\}")
# The names of the house and of the languages are the same in both.
SAME = {"BoxOffice", "PT", "EN", "Português", "English"}
# Blocks that a page fills with a class or an attribute, not with words.
WORDLESS = re.compile(r"block (body_class|nav_\w+)$")
SPOKEN = ("aria-label", "title", "placeholder", "alt")
type Key = tuple[str | None, str]


@dataclass
class Entry:
    """One entry of the catalogue."""

    is_fuzzy: bool
    context: str | None = None
    id: str = ""
    plural: str | None = None
    texts: list[str] = field(default_factory=list)


def parsed(block: str) -> Entry:
    entry = Entry(is_fuzzy=bool(re.search(r"^#,.*\bfuzzy\b", block, re.M)))
    pieces = re.findall(r'^(msg\w+(?:\[\d\])?) ((?:"(?:[^"\\]|\\.)*"\n?)+)', block, re.M)
    for name, quoted in pieces:
        text = "".join(ast.literal_eval(line) for line in quoted.strip().split("\n"))
        if name == "msgctxt":
            entry.context = text
        elif name == "msgid":
            entry.id = text
        elif name == "msgid_plural":
            entry.plural = text
        else:
            entry.texts.append(text)
    return entry


@cache
def catalogue() -> dict[Key, Entry]:
    blocks = CATALOGUE.read_text().strip().split("\n\n")[1:]
    entries = [parsed(block) for block in blocks]
    return {(entry.context, entry.id): entry for entry in entries}


def key_of(node: ast.Call, name: str) -> Key | None:
    """The key that a call marks; ``None`` when it passes on what is a variable."""
    parts = dict(zip(CALLS[name], node.args, strict=False))
    text, context = parts["id"], parts.get("context")
    if not isinstance(text, ast.Constant):
        return None
    return (str(context.value) if isinstance(context, ast.Constant) else None, str(text.value))


def marked_in_python(source: str) -> Iterator[Key]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in CALLS:
            key = key_of(node, node.func.id)  # type: ignore[attr-defined]
            if key is not None:
                yield key


def marked_in_template(source: str) -> Iterator[Key]:
    """From what Django itself makes of a template for xgettext: calls between noise."""
    text = templatize(source)
    for found in MARKED.finditer(text):
        rest = text[found.start() :]
        for end in (place.end() for place in re.finditer(r"\)", rest)):
            try:
                yield from marked_in_python(rest[:end])
            except SyntaxError:
                continue  # a bracket in the words: the call is longer
            break


def marked() -> dict[Key, str]:
    """Everything that is marked for translation, and where."""
    found: dict[Key, str] = {}
    for room in ROOMS:
        for path in sorted((CHECKOUT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                found |= dict.fromkeys(marked_in_python(path.read_text()), str(path))
    for path in TEMPLATES:
        found |= dict.fromkeys(marked_in_template(path.read_text()), str(path))
    return found


def test_everything_marked_is_found() -> None:
    """The reading above sees all the forms that are in use."""
    keys = marked()
    assert ("where staff answer fans", "Desk") in keys
    assert (None, "risk: %(risk)s") in keys
    assert (None, "New conversation") in keys
    assert len(keys) > 400


def test_every_marked_text_is_in_the_catalogue() -> None:
    missing = [f"{where}: {key[1]}" for key, where in marked().items() if key not in catalogue()]
    assert missing == []


def test_no_entry_is_empty_or_a_guess() -> None:
    assert [e.id for e in catalogue().values() if e.is_fuzzy or not all(e.texts)] == []
    assert [e.id for e in catalogue().values() if len(e.texts) != (2 if e.plural else 1)] == []


def test_placeholders_agree() -> None:
    wrong = []
    for entry in catalogue().values():
        meant = set(PLACES.findall(entry.plural or entry.id))
        for text in entry.texts:
            if set(PLACES.findall(text)) != meant:
                wrong.append(f"{entry.id} → {text}")
    assert wrong == []


def test_sentences_end_alike() -> None:
    """A full stop, an ellipsis or a question mark belongs to the words in both languages."""
    ends = (".", "…", "?", ":")
    wrong = [
        f"{entry.id} → {text}"
        for entry in catalogue().values()
        for text in entry.texts
        if [entry.id.endswith(end) for end in ends] != [text.endswith(end) for end in ends]
    ]
    assert wrong == []


def test_compiled_catalogue_is_that_of_the_source() -> None:
    with CATALOGUE.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    stale = []
    for entry in catalogue().values():
        if entry.plural is not None:
            said = [compiled.ngettext(entry.id, entry.plural, count) for count in (1, 2)]
        elif entry.context is not None:
            said = [compiled.pgettext(entry.context, entry.id)]
        else:
            said = [compiled.gettext(entry.id)]
        if said != entry.texts:
            stale.append(entry.id)
    assert stale == [], "run manage.py compilemessages"


def test_english_needs_no_catalogue() -> None:
    with override("en"):
        assert translate("Sign in") == "Sign in"
    with override("pt-br"):
        assert translate("Sign in") == "Entrar"


class Spoken(HTMLParser):
    """The text that a person would read or hear of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.words += [value for name, value in attrs if name in SPOKEN and value]

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def unmarked(source: str) -> list[str]:
    """What a template says outside any translation."""
    kept, is_inside = [], False
    for token in Lexer(source).tokenize():
        if token.token_type == TokenType.BLOCK:
            name = token.contents.split()[0]
            if WORDLESS.match(token.contents):
                is_inside = True
            elif is_inside and name == "endblock":
                is_inside = False
            elif name in {"blocktranslate", "endblocktranslate", "comment", "endcomment"}:
                is_inside = not name.startswith("end")
        elif token.token_type == TokenType.TEXT and not is_inside:
            kept.append(token.contents)
    parser = Spoken()
    parser.feed("".join(kept))
    words = [word.strip(" ·") for text in parser.words for word in text.split("\n")]
    return [word for word in words if re.search(r"[^\W\d_]{2}", word)]


# The page of the last resort speaks both languages: no middleware may have chosen one.
@pytest.mark.parametrize(
    "path",
    [path for path in TEMPLATES if path.name != "500.html"],
    ids=lambda path: str(path.relative_to(CHECKOUT)),
)
def test_template_says_nothing_unmarked(path: Path) -> None:
    assert set(unmarked(path.read_text())) - SAME == set()


def test_unmarked_words_are_seen() -> None:
    page = '<p title="Hello">{% translate "x" %} Over {{ here }}</p>{% blocktranslate %}a b'
    assert unmarked(page + "{% endblocktranslate %}") == ["Hello", "Over"]

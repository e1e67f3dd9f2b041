"""Reading Portuguese and English: folding, language, numbers, money, quantities, addresses.

Everything works on folded text: lower case, no accents, and as long as the original, so that a
position found in one is good in the other.
"""

import re
import unicodedata
from dataclasses import dataclass
from decimal import Decimal

from agents.llm.demo import words

type Span = tuple[int, int]

_WORD = re.compile(r"[a-z0-9@]+(?:['-][a-z0-9]+)*")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")

_AMOUNT = r"(?P<number>\d[\d.,]*\d|\d|mil(?=\s+reais))(?P<thousands>\s*(?:mil|k)\b)?"
_BEFORE = r"(?P<sign>r\s?\$|\$|brl)?\s*"
_AFTER = r"(?P<unit>\s*(?:reais|real|brl|contos?|bucks)\b)?"
_MONEY = re.compile(rf"(?<![\w.,/-]){_BEFORE}{_AMOUNT}{_AFTER}")
_CEILING = re.compile(
    r"(?:abaixo d[eo]|ate(?: uns| no maximo)?|no maximo|maximo(?: de| e)?|menos de|menos que|"
    r"nao passe de|nao custe mais de|nao mais (?:de|do que|que)|orcamento(?: e)?(?: de)?|"
    r"under|below|less than|at most|up to|max(?:imum)?(?: of)?|no more than|not more than|"
    r"cheaper than|mais baratos? (?:do )?que|budget(?: is| of)?(?: about)?|within)\s*:?\s*$"
)
_CEILING_AFTER = re.compile(r"^\s*(?:no maximo|ou menos|or less|max\b|at most|tops)")
_FLOOR = re.compile(
    r"(?:acima de|mais de|mais que|a partir de|over|above|more than|at least|pelo menos)\s*$"
)
_TOTAL = re.compile(r"\b(?:no total|ao todo|total|in total|altogether|all together|pelos dois)\b")
_COUNTED = r"(?P<count>\d{1,3}|" + "|".join(words.SMALL_NUMBERS) + r")"
_SEATS = r"(?:" + "|".join(words.SEAT_NOUNS) + r")"
_QUANTITY = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b(?:um|uns|a)\s+(?P<pair>par|casal|couple|pair)\b(?:\s+(?:of|de)\b)?",
        rf"\b{_COUNTED}\s+(?:\w+\s+){{0,2}}?{_SEATS}\b",
        rf"\b(?:somos|seremos|estamos em|vamos em|we are|we're|there are)\s+{_COUNTED}\b",
        rf"\b(?:para|pra|pros?|for)\s+(?:nos\s+|us\s+|the\s+)?{_COUNTED}\b"
        r"(?!\s*(?:[/:h%]|de\s+[a-z]+eiro\b|de\s+[a-z]+bro\b|reais|pm\b|am\b))",
        rf"\b{_COUNTED}\s+(?:of them|deles|delas|juntos|juntas|together|adjacent)\b",
        rf"\b(?:reserve|reservar|segure|compre|hold|book|get|quero|want|need|preciso de)\s+"
        rf"(?:me\s+)?{_COUNTED}\b(?!\s*(?:[/:h%.,]\d|reais|evento|show|events?|shows?))",
    )
)
_BARE_NUMBER = re.compile(
    rf"^\W*(?:so|sao|seriam|seria|apenas|just|only|quero|uns|umas|it's|its)?\s*{_COUNTED}"
    r"(?:\s*,?\s*(?:por favor|please|pfv|obrigad[oa]|thanks|mesmo))?\W*$"
)
_ORDINAL = re.compile(
    r"\b(?:(?P<noun>opcao|alternativa|option|choice|numero|number|n[o.]?)\s*(?P<digit>\d{1,2}|"
    + "|".join(words.SMALL_NUMBERS)
    + r")|(?P<ordinal>"
    + "|".join(words.ORDINALS)
    + r")(?P<strong>\s+(?:opcao|alternativa|option|one|choice|da lista|evento|show|event|seats?))?"
    r")\b"
)

# "o primeiro para 4 pessoas", "2 ingressos para o segundo"; "a segunda" would be Monday there.
_PLAIN_ORDINAL = (
    r"(?P<ordinal>primeir[oa]|segundo|terceir[oa]|quarto|ultim[oa]|first|second|third|fourth|last)"
)
_ORDINAL_IN_SENTENCE = re.compile(
    rf"\b(?:o|a|the)\s+{_PLAIN_ORDINAL}(?=\s*(?:$|[,.!?]|(?:para|pra|for|por favor|please)\b))"
)


@dataclass(frozen=True, slots=True)
class MaxPrice:
    """The most the fan wants to pay in BRL; `is_total` when it is for all seats together."""

    amount: Decimal
    is_total: bool
    span: Span


def fold(text: str) -> str:
    """Return the text in lower case without accents, of the same length."""
    return "".join(_fold_character(character) for character in text)


def tokens(folded: str) -> list[str]:
    """Return the words of a folded text."""
    return _WORD.findall(folded)


def detect_language(text: str) -> str | None:
    """Return "pt" or "en", or None when the text does not say."""
    found = tokens(fold(text))
    portuguese = sum(word in words.PORTUGUESE for word in found)
    english = sum(word in words.ENGLISH for word in found)
    # An accent of Portuguese weighs more than a short word that both languages know.
    portuguese += 2 * bool(re.search("[ãõçáéíóúâêô]", text.lower()))
    if portuguese == english:
        return None
    return "pt" if portuguese > english else "en"


def parse_money(text: str) -> Decimal | None:
    """Read an amount: `300`, `1.200,50`, `1,200.50`, `1.200` (thousands), `12,5`."""
    digits = text.strip().strip(".,")
    if not re.fullmatch(r"\d+(?:[.,]\d+)*", digits):
        return None
    separators = [character for character in digits if character in ".,"]
    if not separators:
        return Decimal(digits)
    last = separators[-1]
    whole, _, tail = digits.rpartition(last)
    is_decimal = len(tail) in (1, 2) and separators.count(last) == 1
    if is_decimal:
        return Decimal(re.sub("[.,]", "", whole) + "." + tail)
    return Decimal(re.sub("[.,]", "", digits))


def find_max_price(folded: str) -> MaxPrice | None:
    """Find the upper limit of the price in a sentence, if it names one."""
    text = spell_out_numbers(folded)
    for match in _MONEY.finditer(text):
        amount = Decimal(1000) if match["number"] == "mil" else parse_money(match["number"])
        if not amount or not _is_price(text, match):
            continue
        if match["thousands"]:
            amount *= 1000
        lead = _CEILING.search(text, 0, match.start())
        start = lead.start() if lead and lead.end() == match.start() else match.start()
        is_total = bool(_TOTAL.search(text, match.end()))
        return MaxPrice(amount, is_total, (start, match.end()))
    return None


def find_quantity(folded: str) -> tuple[int, Span] | None:
    """Find how many seats a sentence asks for."""
    for pattern in _QUANTITY:
        for match in pattern.finditer(folded):
            groups = match.groupdict()
            if groups.get("pair"):
                return 2, match.span()
            count = number_of(groups["count"])
            if count and not _is_amount(folded, match):
                return count, match.span()
    return None


def bare_number(folded: str) -> int | None:
    """Read a message that is hardly more than a number: the answer to "how many?"."""
    match = _BARE_NUMBER.match(folded)
    return number_of(match["count"]) if match else None


def find_ordinal(folded: str) -> tuple[int, Span] | None:
    """Find a choice from a list: "a segunda opção" is 2, "the last one" is -1."""
    for match in _ORDINAL.finditer(folded):
        if match["noun"]:
            number = number_of(match["digit"])
            if number:
                return number, match.span()
        elif match["strong"] or _stands_alone(folded, match):
            return words.ORDINALS[match["ordinal"]], match.span()
    inside = _ORDINAL_IN_SENTENCE.search(folded)
    return (words.ORDINALS[inside["ordinal"]], inside.span()) if inside else None


def number_of(word: str) -> int | None:
    """Return the value of a small number in digits or in a word of either language."""
    return int(word) if word.isdigit() else words.SMALL_NUMBERS.get(word)


def find_order_ids(text: str) -> list[str]:
    return _UUID.findall(text.lower())


def find_email(text: str) -> tuple[str, Span] | None:
    match = _EMAIL.search(text)
    return (match[0].rstrip("."), match.span()) if match else None


def spell_out_numbers(folded: str) -> str:
    """Replace number words from twenty up by digits, keeping every position."""

    def replace(match: re.Match[str]) -> str:
        value = 0
        for word in re.findall("[a-z]+", match[0]):
            if word == "hundred":
                value = max(value, 1) * 100
            else:
                value += words.BIG_NUMBERS.get(word) or words.SMALL_NUMBERS.get(word) or 0
        return str(value).ljust(len(match[0]))

    return words.BIG_NUMBER_PHRASE.sub(replace, folded)


def _fold_character(character: str) -> str:
    lowered = unicodedata.normalize("NFKD", character)[0].lower()
    return lowered if len(lowered) == 1 else character


def _is_price(text: str, match: re.Match[str]) -> bool:
    before = text[: match.start()]
    has_currency = bool(match["sign"] or match["unit"] or match["thousands"])
    if _FLOOR.search(before):
        return False
    if has_currency:
        return True
    after = text[match.end() :]
    if re.match(
        rf"\s*(?:[/:%-]\s*\d|h\b|(?:\w+\s+)?{_SEATS}\b|de\s+[a-z]+|(?:th|st|nd|rd)\b)", after
    ):
        return False
    return bool(_CEILING.search(before) or _CEILING_AFTER.match(after))


def _is_amount(folded: str, match: re.Match[str]) -> bool:
    """Tell "para 2" from "para 2.500" and from "abaixo de 300 ingressos baratos"."""
    start = match.start("count")
    before, after = folded[:start], folded[match.end("count") :]
    if re.search(r"(?:(?:r\$|\$)\s*|[\d/.-]|\d,)$", before) or re.match(r"[/.,:-]\d", after):
        return True
    return bool(re.match(r"\s*(?:reais|real|mil)\b", after))


def _stands_alone(folded: str, match: re.Match[str]) -> bool:
    """An ordinal counts without a noun when nothing else of weight is said ("a segunda")."""
    rest = folded[: match.start()] + " " + folded[match.end() :]
    return all(word in words.CHOICE_FILLERS for word in tokens(rest))

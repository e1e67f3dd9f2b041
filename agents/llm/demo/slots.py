"""What a message says about the event and the seats it wants."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal

from agents.llm.demo import words
from agents.llm.demo.dates import Dates, find_dates
from agents.llm.demo.text import MaxPrice, Span, find_max_price, find_quantity, fold

_CITY_STOP = (
    r"(?=\s+(?:para|pra|por|com|sem|abaixo|ate|no|na|nos|nas|dia|de\s+\d|e|ou|que|hoje|amanha|"
    r"for|under|below|on|this|next|with|and|or|to|by|at|up|tomorrow|today|tonight)\b|\s{3,}"
    r"|\s*[,.;:!?\d]|"
    r"\s*$)"
)
_CITY = re.compile(
    rf"\b(?:em|in|na cidade de|in the city of)\s+(?P<city>[a-z][a-z' -]{{1,40}}?){_CITY_STOP}"
)
_KNOWN_CITY = re.compile(
    rf"\b(?:em|no|in|de|from|at|para|pra)?\s*\b(?P<city>{'|'.join(words.CITIES)})\b"
)
_KNOWN_CITY_LEAD = re.compile(r"^(?:em|no|in|at|de|from|para|pra)\b")
_NO_CITY = re.compile(
    r"^(?:(?:um|uma|dois|duas|tres|the|a|o|my|meu|minha|qualquer|any|breve|geral|front|advance|row|"
    r"total|cash|fact|case|order|seguida|cima|frente|promocao|order|que|qual|which)\b|\d)"
)
_ANY = re.compile(
    r"\b(?:qualquer (?:um|uma|evento|show|coisa|dia)|tanto faz|o que (?:voce achar|tiver)|"
    r"(?:voce|vc) escolhe|pode escolher|escolha (?:voce|por mim|um)|mais barat[oa]|"
    r"any (?:one|of them|will do|is fine|works)|anything (?:goes|is fine|works)|whatever|"
    r"you (?:choose|pick)|either(?: one)?|cheapest)\b|^\W*any\W*$"
)
_APART = re.compile(
    r"\b(?:separad[oa]s?|nao precisa(?:m)? ser juntos|nao importa se|espalhad[oa]s|"
    r"apart|separate(?:ly)?|not together|don't need to be together)\b"
)
MOST_QUERY = 100  # characters
_CLITIC = re.compile(r"-(?:l?[oa]s?|me|nos|lhes?)$")
_NOISE = re.compile(r"\d{1,2}|h+u?m+|k{2,}|(?:ha|he|rs)+|a+h+|o+h+")
_TOKEN = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*|&")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slots:
    """What is known of the wish so far; an empty field was not said."""

    quantity: int | None = None
    max_price: MaxPrice | None = None
    dates: Dates | None = None
    city: str = ""
    query: str = ""
    takes_any: bool = False
    sits_apart: bool = False

    @property
    def has_filter(self) -> bool:
        return bool(self.max_price or self.dates or self.city or self.query)

    @property
    def seat_price(self) -> Decimal | None:
        """The most one seat may cost in BRL."""
        if self.max_price is None:
            return None
        if self.max_price.is_total and self.quantity:
            return (self.max_price.amount / self.quantity).quantize(Decimal("0.01"))
        return self.max_price.amount

    def merged(self, newer: "Slots") -> "Slots":
        """Return these slots with what the newer message says instead."""
        return replace(
            newer,
            quantity=newer.quantity or self.quantity,
            max_price=newer.max_price or self.max_price,
            dates=newer.dates or self.dates,
            city=newer.city or self.city,
            query=newer.query or self.query,
            takes_any=newer.takes_any or self.takes_any,
            sits_apart=newer.sits_apart or self.sits_apart,
        )

    def search_arguments(self) -> dict[str, object]:
        """Return the arguments of `search_events`."""
        arguments: dict[str, object] = {}
        if self.query:
            arguments["query"] = self.query
        if self.dates and self.dates.first:
            arguments["date_from"] = self.dates.first.isoformat()
        if self.dates and self.dates.last:
            arguments["date_to"] = self.dates.last.isoformat()
        if self.city:
            arguments["city"] = self.city
        if self.seat_price is not None:
            arguments["max_price_brl"] = as_number(self.seat_price)
        return arguments


def find_slots(text: str, today: date) -> Slots:
    """Read everything a message says about the event and the seats."""
    folded = fold(text)
    price = find_max_price(folded)
    counted = find_quantity(folded)
    dates = find_dates(folded, today)
    spans: list[Span] = list(dates.spans) if dates else []
    spans += [found.span for found in (price,) if found]
    spans += [counted[1]] if counted else []
    city = _find_city(text, _blank(folded, spans))
    if city:
        spans.append(city[1])
    manner = [match for match in (_ANY.search(folded), _APART.search(folded)) if match]
    spans += [match.span() for match in manner]
    return Slots(
        quantity=counted[0] if counted else None,
        max_price=price,
        dates=dates,
        city=city[0] if city else "",
        query=_find_query(text, spans),
        takes_any=bool(_ANY.search(folded)),
        sits_apart=bool(_APART.search(folded)),
    )


def as_number(amount: Decimal) -> int | float:
    """Return the amount as a JSON number, whole when it is whole."""
    return int(amount) if amount == amount.to_integral_value() else float(amount)


def _find_city(text: str, folded: str) -> tuple[str, Span] | None:
    known = _KNOWN_CITY.search(folded)
    if known and (_KNOWN_CITY_LEAD.match(known[0]) or known[0].strip() == folded.strip(" .!?")):
        name = words.CITY_NICKNAMES.get(known["city"])
        return name or text[slice(*known.span("city"))], known.span()
    for match in _CITY.finditer(folded):
        name = match["city"].strip()
        said = [word for word in name.split() if word not in words.FILLERS]
        if said and not _NO_CITY.match(name) and len(name.split()) <= 5:
            return text[match.start("city") : match.start("city") + len(name)], match.span()
    return None


def _find_query(text: str, spans: Iterable[Span]) -> str:
    """Return what is left of a message when all that says how, when and how much is gone."""
    rest = _blank(text, spans)
    found = list(_TOKEN.finditer(rest))
    is_content = [_is_content(fold(token[0])) for token in found]
    if not any(is_content):
        return ""
    start = is_content.index(True)
    kept = [found[start]]
    for index in range(start + 1, len(found)):
        gap = rest[kept[-1].end() : found[index].start()]
        if any(mark in gap for mark in ",;.!?()\n") or len(gap) > 3:
            break
        if is_content[index]:
            kept.append(found[index])
        elif not _bridges(found, is_content, index):
            break
        else:
            kept.append(found[index])
    while not _is_content(fold(kept[-1][0])):
        kept.pop()
    return rest[kept[0].start() : kept[-1].end()][:MOST_QUERY]


def _is_content(word: str) -> bool:
    # "reserve-os", "comprá-los": the pronoun is no part of what is looked for.
    if _CLITIC.sub("", word) in words.FILLERS or word == "&":
        return False
    return not _NOISE.fullmatch(word)


def _bridges(found: list[re.Match[str]], is_content: list[bool], index: int) -> bool:
    """Tell whether a small word is inside a title: content follows after it or one more."""
    follows = index + 1 < len(found) and any(is_content[index + 1 : index + 3])
    return follows and (fold(found[index][0]) in words.CONNECTORS or found[index][0] == "&")


def _blank(text: str, spans: Iterable[Span]) -> str:
    for start, end in spans:
        text = text[:start] + " " * (end - start) + text[end:]
    return text

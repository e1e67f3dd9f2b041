"""Dates as people say them, in Portuguese and English, relative to a given day."""

import calendar
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

type Span = tuple[int, int]

WEEKDAYS = {
    "segunda": 0, "terca": 1, "quarta": 2, "quinta": 3, "sexta": 4, "sabado": 5, "domingo": 6,
    "monday": 0, "tuesday": 1, "wednesday": 2, "thursday": 3, "friday": 4, "saturday": 5,
    "sunday": 6,
}  # fmt: skip
MONTHS = {
    "janeiro": 1, "fevereiro": 2, "marco": 3, "abril": 4, "maio": 5, "junho": 6, "julho": 7,
    "agosto": 8, "setembro": 9, "outubro": 10, "novembro": 11, "dezembro": 12,
    "january": 1, "february": 2, "march": 3, "april": 4, "may": 5, "june": 6, "july": 7,
    "august": 8, "september": 9, "october": 10, "november": 11, "december": 12,
}  # fmt: skip

_WEEKDAY = "|".join(WEEKDAYS)
_MONTH = "|".join(MONTHS)
_YEAR = r"(?:\s*(?:,|de|of)?\s*(?P<year>20\d\d))?"
_SUFFIX = r"(?:st|nd|rd|th|o)?"
_AND = r"\s*(?:a|ate|e|to|and|until|through|-|–)\s*"

_ISO = re.compile(r"\b(?P<year>20\d\d)-(?P<month>\d{1,2})-(?P<day>\d{1,2})\b")
_NUMERIC = re.compile(
    r"(?<![\d/.,-])(?P<day>\d{1,2})/(?P<month>\d{1,2})(?:/(?P<year>(?:20)?\d\d))?\b"
)
_DAYS_OF_MONTH = re.compile(
    rf"\b(?P<day>\d{{1,2}}){_SUFFIX}{_AND}(?:o\s+)?(?:dia\s+)?(?P<last>\d{{1,2}}){_SUFFIX}"
    rf"\s+(?:de\s+|of\s+)?(?P<month>{_MONTH})\b{_YEAR}"
)
_MONTH_DAYS = re.compile(
    rf"\b(?P<month>{_MONTH})\s+(?P<day>\d{{1,2}}){_SUFFIX}{_AND}(?P<last>\d{{1,2}}){_SUFFIX}\b{_YEAR}"
)
_DAY_MONTH = re.compile(
    rf"\b(?:dia\s+)?(?:the\s+)?(?P<day>\d{{1,2}}){_SUFFIX}\s+(?:de\s+"
    rf"|of\s+)?(?P<month>{_MONTH})\b{_YEAR}"
)
_MONTH_DAY = re.compile(rf"\b(?P<month>{_MONTH})\s+(?:the\s+)?(?P<day>\d{{1,2}}){_SUFFIX}\b{_YEAR}")
_DAY_ONLY = re.compile(
    r"\b(?:dia\s+(?P<day>\d{1,2})\b|the\s+(?P<english>\d{1,2})(?:st|nd|rd|th)\b)(?!\s*/)"
)
_MONTH_ONLY = re.compile(
    rf"\b(?:em|in|de|durante|during|todo|mes de|for|this)\s+(?P<month>{_MONTH})\b{_YEAR}"
)
_DAY_WORD = re.compile(
    rf"\b(?:(?P<next>proxim[oa]|next|que vem|coming)\s+)?(?P<weekday>{_WEEKDAY})s?(?:[- ]feira)?"
    r"(?P<after>\s+que\s+vem)?\b(?!\s+(?:opcao|alternativa|fila|fileira|linha|parte|option|row))"
)
_SHORT_DAY = re.compile(
    r"\b(?:on|this|next|na|no)\s+(?P<short>mon|tue|wed|thu|fri|sat|sun|seg|qua|qui|sex|sab|dom)\b"
)
_SHORT = {
    "mon": 0, "tue": 1, "wed": 2, "thu": 3, "fri": 4, "sat": 5, "sun": 6,
    "seg": 0, "qua": 2, "qui": 3, "sex": 4, "sab": 5, "dom": 6,
}  # fmt: skip
_RELATIVE = re.compile(
    r"\b(?:(?P<after_tomorrow>depois de amanha|(?:the )?day after tomorrow)"
    r"|(?P<tomorrow>amanha|tomorrow)"
    r"|(?P<today>hoje(?: a noite)?|esta noite|today|tonight)"
    r"|(?P<next_weekend>(?:proximo|next)\s+(?:(?:fim|final) de semana|fds|weekend)"
    r"|(?:(?:fim|final) de semana|fds) que vem)"
    r"|(?P<weekend>(?:(?:neste|nesse|este|esse|this|the)\s+)?"
    r"(?:(?:fim|final) de semana|fds|weekend))"
    r"|(?P<next_week>proxima semana|semana que vem|next week)"
    r"|(?P<week>(?:esta|nesta|essa|nessa|this) (?:semana|week))"
    r"|(?P<next_month>proximo mes|mes que vem|next month)"
    r"|(?P<month>(?:este|neste|esse|nesse|this) (?:mes|month))"
    r"|(?P<in_days>(?:daqui a|em|in)\s+(?P<days>\d{1,2})\s+(?:dias|days)))\b"
)
_JOINED = re.compile(
    r"^\s*,?\s*(?:a|ate|e|ou|to|and|or|until|through|thru|-|–)\s*(?:o|a|no|na|on|the)?\s*$"
)
_UNTIL = re.compile(r"\b(?:ate|antes de|until|till|by|before|up to)\s+(?:o|a|the|on)?\s*$")
_SINCE = re.compile(
    r"\b(?:a partir d[eo]|desde|depois d[eo]|from|after|since|starting(?: on)?)\s+(?:a|o|the)?\s*$"
)


@dataclass(frozen=True, slots=True)
class Dates:
    """An inclusive range of days, either end open, and where the text says so."""

    first: date | None
    last: date | None
    spans: tuple[Span, ...]

    @property
    def days(self) -> int | None:
        """How many days the range has; None when an end is open."""
        if self.first is None or self.last is None:
            return None
        return (self.last - self.first).days + 1


@dataclass(frozen=True, slots=True)
class _Mention:
    first: date
    last: date
    span: Span


def find_dates(folded: str, today: date) -> Dates | None:
    """Find the days a sentence speaks of, as one range; None when it names none."""
    mentions = _mentions(folded, today)
    if not mentions:
        return None
    first, last = mentions[0].first, mentions[0].last
    spans = [mentions[0].span]
    for before, after in itertools.pairwise(mentions):
        if not _JOINED.match(folded[before.span[1] : after.span[0]]):
            break
        first, last = min(first, after.first), max(last, after.last)
        spans.append(after.span)
    before_text = folded[: spans[0][0]]
    if len(spans) == 1 and (until := _UNTIL.search(before_text)):
        return Dates(today, last, ((until.start(), spans[0][1]),))
    if len(spans) == 1 and (since := _SINCE.search(before_text)):
        return Dates(first, None, ((since.start(), spans[0][1]),))
    return Dates(first, last, tuple(spans))


def next_weekday(weekday: int, today: date) -> date:
    """Return the next such day on or after today (Monday is 0)."""
    return today + timedelta(days=(weekday - today.weekday()) % 7)


def _mentions(folded: str, today: date) -> list[_Mention]:
    """Return the mentions in order; of two that overlap, the one whose kind comes first."""
    kept: list[_Mention] = []
    for mention in _candidates(folded, today):
        if all(not _overlap(mention.span, other.span) for other in kept):
            kept.append(mention)
    return sorted(kept, key=lambda mention: mention.span)


def _candidates(folded: str, today: date) -> Iterator[_Mention]:
    for pattern in (_DAYS_OF_MONTH, _MONTH_DAYS, _ISO, _NUMERIC, _DAY_MONTH, _MONTH_DAY):
        for match in pattern.finditer(folded):
            yield from _calendar_day(match, today)
    for match in _RELATIVE.finditer(folded):
        yield _relative(match, today)
    for match in _DAY_WORD.finditer(folded):
        yield _weekday(match, today)
    for match in _SHORT_DAY.finditer(folded):
        day = next_weekday(_SHORT[match["short"]], today)
        yield _Mention(day, day, match.span())
    for match in _DAY_ONLY.finditer(folded):
        yield from _day_of_month(match, today)
    for match in _MONTH_ONLY.finditer(folded):
        yield _month(match, today)


def _calendar_day(match: re.Match[str], today: date) -> Iterator[_Mention]:
    groups = match.groupdict()
    month = MONTHS.get(groups["month"]) or int(groups["month"])
    day = int(groups["day"])
    last = int(groups.get("last") or day)
    if month > 12 and "/" in match[0]:
        day, month, last = month, day, month  # 12/25, as Americans write it
    year = _year(groups.get("year"))
    first_day, last_day = _date(year, month, day, today), _date(year, month, last, today)
    if first_day and last_day and first_day <= last_day:
        yield _Mention(first_day, last_day, match.span())


def _year(text: str | None) -> int | None:
    if not text:
        return None
    return int(text) if len(text) == 4 else 2000 + int(text)


def _date(year: int | None, month: int, day: int, today: date) -> date | None:
    """Return the date; without a year the next time that day comes."""
    for candidate in [year] if year else range(today.year, today.year + 5):
        try:
            found = date(candidate, month, day)
        except ValueError:
            continue
        if year or found >= today:
            return found
    return None


def _relative(match: re.Match[str], today: date) -> _Mention:
    kind = match.lastgroup if match.lastgroup != "days" else "in_days"
    first = last = today
    if kind in ("tomorrow", "after_tomorrow", "in_days"):
        offset = {"tomorrow": 1, "after_tomorrow": 2}.get(kind) or int(match["days"])
        first = last = today + timedelta(days=offset)
    elif kind in ("weekend", "next_weekend"):
        first, last = _weekend(today, is_next=kind == "next_weekend")
    elif kind == "week":
        last = next_weekday(6, today)
    elif kind == "next_week":
        first = today + timedelta(days=7 - today.weekday())
        last = first + timedelta(days=6)
    elif kind == "month":
        last = _month_end(today)
    elif kind == "next_month":
        first = _month_end(today) + timedelta(days=1)
        last = _month_end(first)
    return _Mention(first, last, match.span())


def _weekend(today: date, *, is_next: bool) -> tuple[date, date]:
    sunday = next_weekday(6, today)
    saturday = max(today, sunday - timedelta(days=1))
    if is_next and today >= saturday:
        sunday += timedelta(days=7)
        saturday = sunday - timedelta(days=1)
    return saturday, sunday


def _weekday(match: re.Match[str], today: date) -> _Mention:
    day = next_weekday(WEEKDAYS[match["weekday"]], today)
    if day == today and (match["next"] or match["after"]):
        day += timedelta(days=7)
    return _Mention(day, day, match.span())


def _day_of_month(match: re.Match[str], today: date) -> Iterator[_Mention]:
    day = int(match["day"] or match["english"])
    month = today.replace(day=1)
    for _ in range(3):
        try:
            found = month.replace(day=day)
        except ValueError:
            found = None
        if found and found >= today:
            yield _Mention(found, found, match.span())
            return
        month = _month_end(month) + timedelta(days=1)


def _month(match: re.Match[str], today: date) -> _Mention:
    number = MONTHS[match["month"]]
    year = _year(match["year"]) or (today.year + (number < today.month))
    first = date(year, number, 1)
    return _Mention(max(first, min(today, _month_end(first))), _month_end(first), match.span())


def _month_end(day: date) -> date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]

"""Money, dates, seats and lists as the fan reads them."""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from zoneinfo import ZoneInfo

from agents.llm.demo.dates import Dates
from agents.llm.demo.phrases import say
from agents.llm.demo.slots import Slots
from agents.llm.wire import Json

LISTED_EVENTS = 6

_WEEKDAYS_PT = ("segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira",
                "sábado", "domingo")  # fmt: skip
_WEEKDAYS_EN = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS_PT = ("janeiro", "fevereiro", "março", "abril", "maio", "junho", "julho", "agosto",
              "setembro", "outubro", "novembro", "dezembro")  # fmt: skip
_MONTHS_EN = ("January", "February", "March", "April", "May", "June", "July", "August",
              "September", "October", "November", "December")  # fmt: skip


def money(amount: Any, language: str) -> str:
    """Return an amount of BRL: "R$ 1.240,00", in English "R$ 1,240.00"."""
    value = decimal(amount)
    if value is None:
        return "—"
    text = f"{value:,.2f}"
    if language != "en":
        text = text.translate(str.maketrans(",.", ".,"))
    return f"R$ {text}"


def decimal(amount: Any) -> Decimal | None:
    """Return an amount that may come as a number or as text."""
    try:
        return None if amount is None else Decimal(str(amount))
    except InvalidOperation:
        return None


def moment(text: Any, zone: ZoneInfo) -> datetime | None:
    """Read an ISO time; one without an offset is taken to be in the zone already."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return found.replace(tzinfo=zone) if found.tzinfo is None else found.astimezone(zone)


def when(text: Any, zone: ZoneInfo, language: str) -> str:
    """Return "sábado, 5 de dezembro, às 21h" or "Saturday, December 5, at 9:00 PM"."""
    found = moment(text, zone)
    if found is None:
        return str(text or "")
    if language == "en":
        day = f"{_WEEKDAYS_EN[found.weekday()]}, {_MONTHS_EN[found.month - 1]} {found.day}"
        return f"{day}, at {found.hour % 12 or 12}:{found:%M} {'AM' if found.hour < 12 else 'PM'}"
    minutes = f"{found:%M}" if found.minute else ""
    day = f"{_WEEKDAYS_PT[found.weekday()]}, {found.day} de {_MONTHS_PT[found.month - 1]}"
    return f"{day}, às {found.hour}h{minutes}"


def clock(text: Any, zone: ZoneInfo) -> str:
    """Return the time of day, "21:05"."""
    found = moment(text, zone)
    return f"{found:%H:%M}" if found else str(text or "")


def seat_names(seats: Sequence[Json], language: str) -> str:
    """Return "Plateia, fila C, assentos 12 e 13", grouped by section and row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for seat in seats:
        place = (str(seat.get("section", "")), str(seat.get("row", "")))
        rows.setdefault(place, []).append(str(seat.get("number", "")))
    is_english = language == "en"
    parts = []
    for (section, row), numbers in rows.items():
        row_name = f"row {row}" if is_english else f"fila {row}"
        noun = ("seat" if is_english else "assento") + ("s" if len(numbers) > 1 else "")
        named = [section] if section else []
        named += [row_name] if row else []
        parts.append(", ".join([*named, f"{noun} {joined(numbers, language)}"]))
    return "; ".join(parts)


def joined(items: Sequence[str], language: str) -> str:
    """Return "a, b e c"."""
    if len(items) < 2:
        return "".join(items)
    word = "and" if language == "en" else "e"
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def seat_count(quantity: int, language: str) -> str:
    if language == "en":
        return f"{quantity} seat{'s' if quantity != 1 else ''}"
    return f"{quantity} lugar{'es' if quantity != 1 else ''}"


def event_line(event: Json, zone: ZoneInfo, language: str, *, key: str = "event_line") -> str:
    """Return one event on one line."""
    where = ", ".join(str(event[part]) for part in ("venue", "city") if event.get(part))
    low = event.get("price_from_brl")
    price = money(low, language)
    if low != event.get("price_to_brl", low):
        price = say("from_price", language, price=price)
    return say(
        key,
        language,
        title=event.get("title", ""),
        when=when(event.get("starts_at"), zone, language),
        where=where,
        price=price,
        sold_out=say("sold_out", language) if event.get("seats_free") == 0 else "",
    )


def event_list(events: Sequence[Json], total: int, zone: ZoneInfo, language: str) -> str:
    """Return a numbered list of the first events."""
    lines = [
        f"{number}. {event_line(event, zone, language)}"
        for number, event in enumerate(events[:LISTED_EVENTS], start=1)
    ]
    hidden = max(total, len(events)) - len(lines)
    if hidden > 0:
        lines.append(say("events_more", language, count=hidden))
    return "\n".join(lines)


def option_list(options: Sequence[Json], quantity: int, language: str) -> str:
    """Return a numbered list of seat options."""
    lines = []
    for number, option in enumerate(options, start=1):
        is_apart = quantity > 1 and not option.get("adjacent", True)
        line = say(
            "option_line",
            language,
            seats=seat_names(option.get("seats") or [], language),
            total=money(option.get("total_brl"), language),
            apart=say("apart", language) if is_apart else "",
        )
        lines.append(f"{number}. {line}")
    return "\n".join(lines)


def filters(slots: Slots, language: str) -> str:
    """Return what was searched for: " de jazz em São Paulo, no sábado, até R$ 300,00"."""
    is_english = language == "en"
    parts = []
    if slots.query:
        parts.append(f" for **{slots.query}**" if is_english else f" para **{slots.query}**")
    if slots.city:
        parts.append(f" in {slots.city}" if is_english else f" em {slots.city}")
    if slots.dates:
        parts.append(day_range(slots.dates, language))
    if slots.seat_price is not None:
        word = "up to" if is_english else "até"
        parts.append(f" {word} {money(slots.seat_price, language)}")
    return ",".join(parts)


def day_range(dates: Dates, language: str) -> str:
    """Return " em 5 de dezembro" or " de 5 de dezembro a 6 de dezembro"."""
    is_english = language == "en"
    first, last = dates.first, dates.last
    names = [
        f"{_MONTHS_EN[day.month - 1]} {day.day}" if is_english
        else f"{day.day} de {_MONTHS_PT[day.month - 1]}"
        for day in (first, last)
        if day is not None
    ]  # fmt: skip
    if first is None or last is None:
        return (" from " if is_english else " a partir de ") + names[0]
    if first == last:
        weekday = (_WEEKDAYS_EN if is_english else _WEEKDAYS_PT)[first.weekday()]
        return f" on {weekday}, {names[0]}" if is_english else f" em {names[0]} ({weekday})"
    return f" from {names[0]} to {names[1]}" if is_english else f" de {names[0]} a {names[1]}"

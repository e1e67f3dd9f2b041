"""The map of an event's seats, and the best seats to offer."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from boxoffice.common import clock
from boxoffice.ticketing.models import Event, Price, Seat
from boxoffice.ticketing.selectors.claims import FREE, seat_statuses

MOST_OPTIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatRow:
    """A seat as one event sells it. ``status`` is ``free``, ``held`` or ``sold``."""

    id: UUID
    section: str
    row: str
    number: int
    price_minor: int
    status: str
    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SeatOption:
    """Free seats that could be held together."""

    seats: tuple[SeatRow, ...]
    adjacent: bool

    @property
    def total_minor(self) -> int:
        """What they cost together (centavos)."""
        return sum(seat.price_minor for seat in self.seats)


def event_seat_map(event: Event) -> list[SeatRow]:
    """Every seat that the event sells, section by section, in three queries."""
    prices = dict(Price.objects.filter(event=event).values_list("section_id", "amount_minor"))
    taken = seat_statuses(event_ids=[event.pk], moment=clock.now())
    seats = (
        Seat.objects.filter(section_id__in=list(prices))
        .order_by("section__position", "section__name", "row", "number")
        .values_list("pk", "section_id", "section__name", "row", "number", "x", "y")
    )
    return [
        SeatRow(
            id=pk,
            section=section,
            row=row,
            number=number,
            price_minor=prices[section_id],
            status=taken.get((event.pk, pk), FREE),
            x=x,
            y=y,
        )
        for pk, section_id, section, row, number, x, y in seats
    ]


def seat_options(
    event: Event, *, quantity: int, max_price_minor: int | None = None, adjacent: bool = True
) -> list[SeatOption]:
    """At most five ways to seat ``quantity`` fans, neighbours first, then the cheapest.

    ``max_price_minor`` is per seat. Neighbours are consecutive numbers of one row; each row gives
    one option before any row gives a second, and no seat is in two. With ``adjacent=False`` seats
    apart fill up what neighbours leave.
    """
    free = [
        seat
        for seat in event_seat_map(event)
        if seat.status == FREE and (max_price_minor is None or seat.price_minor <= max_price_minor)
    ]
    together = _spread(_windows(free, quantity))
    if adjacent or len(together) >= MOST_OPTIONS:
        return together[:MOST_OPTIONS]
    offered = {seat.id for option in together for seat in option.seats}
    left = [seat for seat in free if seat.id not in offered]
    return [*together, *_apart(left, quantity)][:MOST_OPTIONS]


def _rows(seats: list[SeatRow]) -> dict[tuple[str, str], list[SeatRow]]:
    rows: dict[tuple[str, str], list[SeatRow]] = defaultdict(list)
    for seat in seats:
        rows[seat.section, seat.row].append(seat)
    return rows


def _windows(free: list[SeatRow], quantity: int) -> Iterator[list[SeatOption]]:
    """Per row, the windows of neighbours that share no seat, the most central one first."""
    for seats in _rows(free).values():
        centre = sum(seat.x for seat in seats) / len(seats)
        windows = [
            seats[i : i + quantity]
            for i in range(len(seats) - quantity + 1)
            if all(b.number == a.number + 1 for a, b in pairwise(seats[i : i + quantity]))
        ]
        windows.sort(key=lambda window: abs(sum(s.x for s in window) / quantity - centre))
        used: set[UUID] = set()
        kept = []
        for window in windows:
            ids = {seat.id for seat in window}
            if used.isdisjoint(ids):
                used |= ids
                kept.append(SeatOption(seats=tuple(window), adjacent=True))
        if kept:
            yield kept


def _spread(rows: Iterator[list[SeatOption]]) -> list[SeatOption]:
    """Cheapest first; among equals the first window of every row before any second one."""
    ranked = [(rank, option) for row in rows for rank, option in enumerate(row)]
    ranked.sort(key=lambda pair: (pair[0] > 0, pair[1].total_minor, pair[0]))
    best = [option for _, option in ranked[:MOST_OPTIONS]]
    return sorted(best, key=lambda option: option.total_minor)


def _apart(free: list[SeatRow], quantity: int) -> Iterator[SeatOption]:
    """Seats that are not neighbours: the cheapest of each section, then of the house."""
    by_price = sorted(free, key=lambda seat: seat.price_minor)
    sections: dict[str, list[SeatRow]] = defaultdict(list)
    for seat in by_price:
        sections[seat.section].append(seat)
    found = False
    for seats in sections.values():
        if len(seats) >= quantity:
            found = True
            yield SeatOption(seats=tuple(seats[:quantity]), adjacent=False)
    if not found and len(by_price) >= quantity:
        yield SeatOption(seats=tuple(by_price[:quantity]), adjacent=False)

"""Puts a demo house, its programme and its sales into the open scope's tenant."""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from random import Random
from uuid import UUID
from zoneinfo import ZoneInfo

from boxoffice.acquirer.models import Movement
from boxoffice.common import clock
from boxoffice.common.transitions import transition
from boxoffice.common.types import uuid7
from boxoffice.tenancy.scope import current_tenant_id
from boxoffice.ticketing.demo.maps import House
from boxoffice.ticketing.demo.programme import Performance, Slot, performances
from boxoffice.ticketing.models import (
    Event,
    Hold,
    Order,
    Payment,
    Price,
    Seat,
    SeatClaim,
    Section,
    Venue,
)
from boxoffice.ticketing.models.sales import HOLD, HoldStatus

WEEKS_AHEAD = 6
LEAST_SOLD, MOST_SOLD = 0.15, 0.35


def venue_stock(house: House) -> Venue:
    """The venue with its seats; made once."""
    venue: Venue
    venue, created = Venue.objects.get_or_create(
        name=house.name, defaults={"city": house.city, "address": house.address}
    )
    if not created:
        return venue
    for position, sector in enumerate(house.sectors):
        section = Section.objects.create(
            venue=venue, name=sector.name, colour=sector.colour, position=position
        )
        Seat.objects.bulk_create(
            Seat(
                tenant_id=venue.tenant_id,
                section=section,
                row=place.row,
                number=place.number,
                x=place.x,
                y=place.y,
            )
            for place in sector.places()
        )
    return venue


def programme_stock(
    venue: Venue, slots: tuple[Slot, ...], *, zone: ZoneInfo, fans: Sequence[int]
) -> int:
    """Add the performances of the coming weeks that are missing, with prices and sold seats.

    ``fans`` are the ids of the users who bought them. Returns how many events are new.
    """
    moment = clock.now()
    first = moment.astimezone(zone).date()
    known = set(Event.objects.values_list("slug", flat=True))
    sections = list(Section.objects.filter(venue=venue).order_by("position"))
    seats = _rows_of_seats(venue)
    sold = _Sales(fans)
    new = 0
    for performance in performances(slots, first=first, days=WEEKS_AHEAD * 7 + 1):
        starts_at = datetime.combine(performance.day, performance.at, zone)
        if performance.slug in known or starts_at <= moment + timedelta(hours=2):
            continue
        event = _event(venue, performance, starts_at)
        prices = dict(zip([s.pk for s in sections], performance.show.prices, strict=True))
        Price.objects.bulk_create(
            Price(
                tenant_id=venue.tenant_id, event=event, section_id=section_id, amount_minor=amount
            )
            for section_id, amount in prices.items()
        )
        sold.add(event, seats, prices)
        new += 1
    sold.store()
    return new


def _event(venue: Venue, performance: Performance, starts_at: datetime) -> Event:
    show = performance.show
    event: Event = Event.objects.create(
        venue=venue,
        slug=performance.slug,
        title=show.title,
        category=show.category,
        description=show.description,
        starts_at=starts_at,
    )
    return event


def _rows_of_seats(venue: Venue) -> list[list[Seat]]:
    rows: dict[tuple[UUID, str], list[Seat]] = {}
    seats = Seat.objects.filter(section__venue=venue)
    for seat in seats.order_by("section__position", "row", "number"):
        rows.setdefault((seat.section_id, seat.row), []).append(seat)
    return list(rows.values())


class _Sales:
    """Orders of demo fans, gathered for a few large inserts."""

    def __init__(self, fans: Sequence[int]) -> None:
        self.fans = fans
        self.holds: list[Hold] = []
        self.orders: list[Order] = []
        self.claims: list[SeatClaim] = []
        self.payments: list[Payment] = []
        self.charges: list[Movement] = []

    def add(self, event: Event, rows: list[list[Seat]], prices: dict[UUID, int]) -> None:
        """Sell a share of the house that the event's slug decides."""
        dice = Random(event.slug)  # noqa: S311 - the same seats each time is the point
        total = sum(len(row) for row in rows)
        wanted = int(total * dice.uniform(LEAST_SOLD, MOST_SOLD))
        for group in _groups(rows, wanted, dice):
            self._sell(event, group, prices, dice.choice(self.fans))

    def _sell(self, event: Event, seats: list[Seat], prices: dict[UUID, int], fan: int) -> None:
        tenant_id, total = event.tenant_id, sum(prices[seat.section_id] for seat in seats)
        hold = Hold(tenant_id=tenant_id, event=event, user_id=fan, expires_at=clock.now())
        order = Order(tenant_id=tenant_id, event=event, user_id=fan, hold=hold, total_minor=total)
        self.holds.append(hold)
        self.orders.append(order)
        self.claims += [
            SeatClaim(
                tenant_id=tenant_id,
                event=event,
                seat=seat,
                hold=hold,
                order=order,
                price_minor=prices[seat.section_id],
            )
            for seat in seats
        ]
        reference = f"demo:{uuid7()}"
        self.payments.append(
            Payment(
                tenant_id=tenant_id,
                order=order,
                amount_minor=total,
                provider="demo",
                provider_id=reference,
                reference=reference,
            )
        )
        # The demo's provider knows of them too: they can be refunded.
        self.charges.append(Movement(key=reference, amount_minor=total))

    def store(self) -> None:
        """Write everything down."""
        Hold.objects.bulk_create(self.holds)
        Order.objects.bulk_create(self.orders)
        SeatClaim.objects.bulk_create(self.claims)
        Payment.objects.bulk_create(self.payments)
        Movement.objects.bulk_create(self.charges)
        bought = Hold.objects.filter(
            tenant_id=current_tenant_id(), pk__in=[hold.pk for hold in self.holds]
        )
        transition(bought, HOLD, HoldStatus.CONVERTED)


def _groups(rows: list[list[Seat]], wanted: int, dice: Random) -> Iterator[list[Seat]]:
    """Groups of one to four neighbours, until so many seats are gone."""
    gone: set[UUID] = set()
    while len(gone) < wanted:
        row = dice.choice(rows)
        size = min(dice.choice((1, 2, 2, 2, 3, 4)), len(row), wanted - len(gone))
        start = dice.randrange(len(row) - size + 1)
        group = row[start : start + size]
        if gone.isdisjoint(seat.pk for seat in group):
            gone |= {seat.pk for seat in group}
            yield group

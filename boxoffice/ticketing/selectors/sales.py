"""What a fan holds and has bought."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from boxoffice.common import clock
from boxoffice.ticketing.exceptions import HoldNotFound, OrderNotFound
from boxoffice.ticketing.models import Event, Hold, Order, Price, SeatClaim
from boxoffice.ticketing.selectors.claims import FREE, seat_statuses
from boxoffice.ticketing.selectors.seats import SeatRow


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldRow:
    """A hold as it is true now, with its seats and what they cost (centavos)."""

    id: UUID
    event: Event
    seats: tuple[SeatRow, ...]
    total_minor: int
    expires_at: datetime
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RefundRow:
    """Money given back (centavos)."""

    id: UUID
    amount_minor: int
    status: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRow:
    """An order with its seats, also those that a refund has freed."""

    id: UUID
    event: Event
    seats: tuple[SeatRow, ...]
    total_minor: int
    status: str
    refunds: tuple[RefundRow, ...]


def holds_of(user_id: int) -> QuerySet[Hold]:
    """A fan's holds, newest first; ``hold_rows`` turns a page of them into rows."""
    rows: QuerySet[Hold] = (
        Hold.objects.filter(user_id=user_id)
        .select_related("event__venue")
        .prefetch_related(_claims())
        .order_by("-pk")
    )
    return rows


def orders_of(user_id: int) -> QuerySet[Order]:
    """A fan's orders, newest first; ``order_rows`` turns a page of them into rows."""
    rows: QuerySet[Order] = (
        Order.objects.filter(user_id=user_id)
        .select_related("event__venue")
        .prefetch_related(_claims(), "refunds")
        .order_by("-pk")
    )
    return rows


def hold_of(*, hold_id: UUID, user_id: int) -> HoldRow:
    """A fan's own hold. Raises ``HoldNotFound``."""
    rows = hold_rows(holds_of(user_id).filter(pk=hold_id))
    if not rows:
        raise HoldNotFound
    return rows[0]


def order_of(*, order_id: UUID, user_id: int) -> OrderRow:
    """A fan's own order. Raises ``OrderNotFound``."""
    rows = order_rows(orders_of(user_id).filter(pk=order_id))
    if not rows:
        raise OrderNotFound
    return rows[0]


def list_price(hold: HoldRow) -> int | None:
    """What the hold's seats cost by today's price list (centavos); ``None`` if some have none."""
    prices = Price.objects.filter(event=hold.event)
    today: dict[str, int] = dict(prices.values_list("section__name", "amount_minor"))
    if any(seat.section not in today for seat in hold.seats):
        return None
    return sum(today[seat.section] for seat in hold.seats)


def hold_rows(holds: Iterable[Hold]) -> list[HoldRow]:
    """Rows of holds that came from ``holds_of``; one query for the state of all their seats."""
    holds, moment = list(holds), clock.now()
    statuses = seat_statuses(event_ids=(hold.event_id for hold in holds), moment=moment)
    return [
        HoldRow(
            id=hold.pk,
            event=hold.event,
            seats=_seats(hold.claims.all(), statuses),
            total_minor=sum(claim.price_minor for claim in hold.claims.all()),
            expires_at=hold.expires_at,
            status=hold.status_at(moment),
        )
        for hold in holds
    ]


def order_rows(orders: Iterable[Order]) -> list[OrderRow]:
    """Rows of orders that came from ``orders_of``; one query for the state of all their seats."""
    orders = list(orders)
    statuses = seat_statuses(event_ids=(order.event_id for order in orders), moment=clock.now())
    return [
        OrderRow(
            id=order.pk,
            event=order.event,
            seats=_seats(order.claims.all(), statuses),
            total_minor=order.total_minor,
            status=order.status,
            refunds=_refunds(order),
        )
        for order in orders
    ]


def _claims() -> "Prefetch[str, QuerySet[SeatClaim], str]":
    rows = SeatClaim.objects.select_related("seat__section").order_by(
        "seat__section__position", "seat__section__name", "seat__row", "seat__number"
    )
    return Prefetch("claims", queryset=rows)


def _seats(
    claims: Iterable[SeatClaim], statuses: dict[tuple[UUID, UUID], str]
) -> tuple[SeatRow, ...]:
    return tuple(
        SeatRow(
            id=claim.seat_id,
            section=claim.seat.section.name,
            row=claim.seat.row,
            number=claim.seat.number,
            price_minor=claim.price_minor,
            status=statuses.get((claim.event_id, claim.seat_id), FREE),
            x=claim.seat.x,
            y=claim.seat.y,
        )
        for claim in claims
    )


def _refunds(order: Order) -> tuple[RefundRow, ...]:
    return tuple(
        RefundRow(
            id=refund.pk,
            amount_minor=refund.amount_minor,
            status=refund.status,
            reason=refund.reason,
        )
        for refund in sorted(order.refunds.all(), key=lambda refund: refund.pk)
    )

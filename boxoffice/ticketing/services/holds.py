"""Holding seats: all or nothing, for a while, and never a seat twice.

Who gets a seat is decided by the unique index on live claims. The code around it only keeps the
order of locks (holds by id, then claims by seat), so that two fans never wait for each other.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction

from boxoffice.common import clock
from boxoffice.common.transitions import transition
from boxoffice.ticketing.exceptions import (
    BadSeats,
    EventNotFound,
    HoldExpired,
    HoldNotActive,
    HoldNotFound,
    SalesClosed,
    SeatsTaken,
)
from boxoffice.ticketing.models import Event, Hold, Price, Seat, SeatClaim
from boxoffice.ticketing.models.sales import HOLD, HoldStatus
from boxoffice.ticketing.selectors.claims import claims_live

MOST_SEATS = 6
_SWEEP_BATCH = 500


def hold_create(
    *, event_id: UUID, seat_ids: Sequence[UUID], user_id: int, now: datetime | None = None
) -> Hold:
    """Hold 1 to 6 different seats of one event for ``HOLD_SECONDS``: all of them, or none.

    Holds whose time is over give these seats up in the same transaction, so that the time limit
    is true without any sweep. Raises ``EventNotFound``, ``SalesClosed``, ``BadSeats``, or
    ``SeatsTaken`` naming the seats that somebody else has.
    """
    moment = now or clock.now()
    event = Event.objects.filter(pk=event_id).first()
    if event is None:
        raise EventNotFound
    if not event.sales_open or event.starts_at <= moment:
        raise SalesClosed
    priced = _seats_with_price(event, seat_ids)
    try:
        with transaction.atomic():
            _free_overdue(event, list(priced), moment)
            hold: Hold = Hold.objects.create(
                event=event,
                user_id=user_id,
                expires_at=moment + timedelta(seconds=settings.HOLD_SECONDS),
            )
            SeatClaim.objects.bulk_create(
                SeatClaim(
                    tenant_id=hold.tenant_id,
                    event=event,
                    seat_id=seat_id,
                    hold=hold,
                    price_minor=priced[seat_id],
                )
                for seat_id in sorted(priced)
            )
    except IntegrityError as error:
        if not _is_taken(error):
            raise
        raise _taken(event, list(priced), user_id, moment) from None
    return hold


def hold_release(*, hold_id: UUID, user_id: int) -> Hold:
    """Give a fan's hold back. A hold that is over already is returned as it is.

    Raises ``HoldNotFound``, and ``HoldNotActive`` when the seats were bought meanwhile, or are
    being paid.
    """
    with transaction.atomic():
        hold = hold_lock(hold_id=hold_id, user_id=user_id)
        if hold.status in (HoldStatus.PAYING, HoldStatus.CONVERTED):
            raise HoldNotActive(hold.status)
        _end([hold.pk], HoldStatus.RELEASED, clock.now())
        hold.refresh_from_db()
        return hold


def hold_extend(*, hold_id: UUID, until: datetime) -> Hold:
    """Keep a live hold at least ``until``; never shortens it.

    Raises ``HoldNotFound``, ``HoldExpired``, ``HoldNotActive``.
    """
    with transaction.atomic():
        hold = hold_lock(hold_id=hold_id, user_id=None)
        require_live(hold, clock.now())
        if until > hold.expires_at:
            hold.expires_at = until
            hold.save(update_fields=["expires_at"])
        return hold


def holds_expire(*, now: datetime | None = None) -> int:
    """End the holds of the open scope whose time is over. Returns how many ended.

    Holds that somebody works on at the moment are left for the next sweep.
    """
    moment = now or clock.now()
    with transaction.atomic():
        overdue = list(
            Hold.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(status=HoldStatus.ACTIVE, expires_at__lte=moment)
            .order_by("pk")
            .values_list("pk", flat=True)[:_SWEEP_BATCH]
        )
        return _end(overdue, HoldStatus.EXPIRED, moment)


def hold_lock(*, hold_id: UUID, user_id: int | None) -> Hold:
    """Lock a hold until the transaction ends; ``user_id=None`` takes it whosever it is.

    Raises ``HoldNotFound``.
    """
    rows = Hold.objects.select_for_update(no_key=True).filter(pk=hold_id)
    hold: Hold | None = (rows if user_id is None else rows.filter(user_id=user_id)).first()
    if hold is None:
        raise HoldNotFound
    return hold


def hold_unpaid(*, hold_id: UUID) -> None:
    """Back from being paid: it holds again for the rest of its time, and ends if there is none.

    In the transaction of whoever found that no money was taken.
    """
    moment = clock.now()
    transition(Hold.objects.filter(pk=hold_id), HOLD, HoldStatus.ACTIVE)
    if Hold.objects.filter(pk=hold_id, expires_at__lte=moment).exists():
        _end([hold_id], HoldStatus.EXPIRED, moment)


def require_live(hold: Hold, moment: datetime) -> None:
    """Raise ``HoldExpired`` or ``HoldNotActive`` unless the hold holds its seats."""
    status = hold.status_at(moment)
    if status == HoldStatus.EXPIRED:
        raise HoldExpired
    if status != HoldStatus.ACTIVE:
        raise HoldNotActive(status)


def _seats_with_price(event: Event, seat_ids: Sequence[UUID]) -> dict[UUID, int]:
    """The seats' prices (centavos) by id; raises ``BadSeats``."""
    if not 1 <= len(seat_ids) <= MOST_SEATS:
        raise BadSeats(f"seat_ids: 1 to {MOST_SEATS} seats, not {len(seat_ids)}.")
    wanted = set(seat_ids)
    if len(wanted) != len(seat_ids):
        raise BadSeats("seat_ids: each seat once.")
    amounts = dict(Price.objects.filter(event=event).values_list("section_id", "amount_minor"))
    sections = Seat.objects.filter(
        pk__in=wanted, section__venue_id=event.venue_id, section_id__in=list(amounts)
    ).values_list("pk", "section_id")
    priced = {seat_id: amounts[section_id] for seat_id, section_id in sections}
    unknown = sorted(str(seat_id) for seat_id in wanted - set(priced))
    if unknown:
        raise BadSeats(f"seat_ids: not on sale for this event: {', '.join(unknown)}.")
    return priced


def _free_overdue(event: Event, seat_ids: list[UUID], moment: datetime) -> None:
    overdue = list(
        SeatClaim.objects.filter(
            event=event,
            seat_id__in=seat_ids,
            released_at__isnull=True,
            hold__status=HoldStatus.ACTIVE,
            hold__expires_at__lte=moment,
        ).values_list("hold_id", flat=True)
    )
    if not overdue:
        return
    # Asked again under the lock: whoever bought or extended one of them meanwhile keeps it.
    locked = list(
        Hold.objects.select_for_update(no_key=True)
        .filter(pk__in=overdue, status=HoldStatus.ACTIVE, expires_at__lte=moment)
        .order_by("pk")
        .values_list("pk", flat=True)
    )
    _end(locked, HoldStatus.EXPIRED, moment)


def _end(hold_ids: Iterable[UUID], status: HoldStatus, moment: datetime) -> int:
    """Move locked holds to ``status`` and free the seats of those that moved."""
    ids = list(hold_ids)
    moved = transition(Hold.objects.filter(pk__in=ids), HOLD, status)
    if moved:
        SeatClaim.objects.filter(
            hold_id__in=ids, hold__status=status, released_at__isnull=True
        ).update(released_at=moment)
    return moved


def _is_taken(error: IntegrityError) -> bool:
    diagnosis = getattr(error.__cause__, "diag", None)
    return getattr(diagnosis, "constraint_name", "") == "seatclaim_one_live_per_seat"


def _taken(event: Event, seat_ids: list[UUID], user_id: int, moment: datetime) -> SeatsTaken:
    claims = list(
        claims_live(moment)
        .filter(event=event, seat_id__in=seat_ids)
        .select_related("seat__section", "hold")
        .order_by("seat__section__name", "seat__row", "seat__number")
    )
    names = [f"{c.seat.section.name}, {c.seat.row}{c.seat.number}" for c in claims]
    if claims and all(c.hold.user_id == user_id for c in claims):
        return SeatsTaken(names, hint="This fan has these seats already; do not hold them again.")
    return SeatsTaken(names)

"""Which seats are not free, and why."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from boxoffice.ticketing.models import SeatClaim
from boxoffice.ticketing.models.sales import OrderStatus

FREE, HELD, SOLD = "free", "held", "sold"


def claims_live(moment: datetime) -> QuerySet[SeatClaim]:
    """The claims that keep a seat from others at ``moment``; an overdue hold's do not."""
    rows: QuerySet[SeatClaim] = SeatClaim.objects.filter(
        Q(order__isnull=False) | Q(hold__expires_at__gt=moment), released_at__isnull=True
    )
    return rows


def seat_statuses(*, event_ids: Iterable[UUID], moment: datetime) -> dict[tuple[UUID, UUID], str]:
    """``held`` or ``sold`` by (event, seat); a seat that is missing is free.

    A seat that is being paid is held: it is sold once the money is there.
    """
    rows = claims_live(moment).filter(event_id__in=set(event_ids))
    return {
        (event_id, seat_id): HELD if is_held else SOLD
        for event_id, seat_id, is_held in rows.values_list(
            "event_id",
            "seat_id",
            ExpressionWrapper(
                Q(order__isnull=True) | Q(order__status=OrderStatus.PENDING), BooleanField()
            ),
        )
    }

"""What is on: one query for dates, price range and free seats, however many events."""

from datetime import date, datetime, time, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import (
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
)
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from boxoffice.common import clock
from boxoffice.common.exceptions import InvalidInput
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import current_tenant_id
from boxoffice.ticketing.exceptions import EventNotFound
from boxoffice.ticketing.models import Event, Price
from boxoffice.ticketing.selectors.claims import claims_live

_MOST_WORDS = 12
# "show de jazz" asks for jazz: what names every event finds none by its name.
_FILLERS = frozenset(
    {"a", "as", "o", "os", "e", "de", "da", "do", "das", "dos", "em", "no", "na", "um", "uma"}
    | {"para", "por", "com", "the", "of", "in", "at", "for", "and", "show", "shows", "evento"}
    | {"eventos", "event", "events", "ingresso", "ingressos", "ticket", "tickets"}
)
# Dates outside are a slip of the pen, and overflow when a time zone is applied.
EARLIEST, LATEST = date(2000, 1, 1), date(2200, 12, 31)


def tenant_zone() -> ZoneInfo:
    """The time zone in which the open scope's tenant says its dates."""
    return ZoneInfo(Tenant.objects.values_list("time_zone", flat=True).get(pk=current_tenant_id()))


# As text: the ORM takes several milliseconds to put such a query together, each time.
# Row-level security holds inside, and what belongs to an event is of its tenant.
_PRICE = (
    "(SELECT {}(price.amount_minor) FROM ticketing_price price"
    " WHERE price.event_id = ticketing_event.id)"
)
_SEATS = (
    "(SELECT count(*) FROM ticketing_seat seat"
    " JOIN ticketing_price price ON price.section_id = seat.section_id"
    " WHERE price.event_id = ticketing_event.id)"
)


def events_with_offer(*, moment: datetime | None = None) -> QuerySet[Event]:
    """Events with ``price_from``, ``price_to`` (centavos, ``None`` without prices), ``seats_free``.

    Everything comes in one statement, so that a page of events never asks once per event.
    """
    taken = (
        claims_live(moment or clock.now())
        .filter(event=OuterRef("pk"))
        .order_by()
        .values("event")
        .annotate(n=Count("pk"))
    )
    rows: QuerySet[Event] = Event.objects.select_related("venue").annotate(
        price_from=RawSQL(_PRICE.format("min"), []),  # noqa: S611 - nobody's input
        price_to=RawSQL(_PRICE.format("max"), []),  # noqa: S611
        seats_free=RawSQL(_SEATS, [], output_field=IntegerField())  # noqa: S611
        - Coalesce(Subquery(taken.values("n"), output_field=IntegerField()), 0),
    )
    return rows


def events_search(
    *,
    query: str = "",
    date_from: date | None = None,
    date_to: date | None = None,
    city: str = "",
    max_price_minor: int | None = None,
) -> QuerySet[Event]:
    """Coming events on sale, soonest first, with their offer.

    Every telling word of ``query`` must occur in title, category, description, venue or city,
    accents and case aside. The dates are days in the tenant's time zone, both included.
    ``max_price_minor`` asks for at least one section at or below it. Raises ``InvalidInput`` for
    impossible dates.
    """
    moment = clock.now()
    rows = events_with_offer(moment=moment).filter(sales_open=True, starts_at__gt=moment)
    rows = _between(rows, date_from, date_to)
    if city.strip():
        rows = rows.filter(venue__city__unaccent__icontains=city.strip())
    for word in _telling_words(query):
        rows = rows.filter(
            Q(title__unaccent__icontains=word)
            | Q(category__unaccent__icontains=word)
            | Q(description__unaccent__icontains=word)
            | Q(venue__name__unaccent__icontains=word)
            | Q(venue__city__unaccent__icontains=word)
        )
    if max_price_minor is not None:
        affordable = Price.objects.filter(event=OuterRef("pk"), amount_minor__lte=max_price_minor)
        rows = rows.filter(Exists(affordable))
    return rows.order_by(F("starts_at").asc(), "pk")


def event_get(event_id: UUID) -> Event:
    """One event with its offer, past ones too. Raises ``EventNotFound``."""
    event = events_with_offer().filter(pk=event_id).first()
    if event is None:
        raise EventNotFound
    return event


def _telling_words(query: str) -> list[str]:
    words = [word for word in query.split() if word.casefold() not in _FILLERS]
    return words[:_MOST_WORDS]


def _between(
    rows: QuerySet[Event], date_from: date | None, date_to: date | None
) -> QuerySet[Event]:
    for name, day in (("date_from", date_from), ("date_to", date_to)):
        if day is not None and not EARLIEST <= day <= LATEST:
            raise InvalidInput(f"{name}: between {EARLIEST} and {LATEST}.")
    if date_from is not None and date_to is not None and date_to < date_from:
        raise InvalidInput("date_to: not before date_from.")
    if date_from is None and date_to is None:
        return rows
    zone = tenant_zone()
    if date_from is not None:
        rows = rows.filter(starts_at__gte=datetime.combine(date_from, time.min, zone))
    if date_to is not None:
        end = datetime.combine(date_to + timedelta(days=1), time.min, zone)
        rows = rows.filter(starts_at__lt=end)
    return rows

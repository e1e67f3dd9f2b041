"""Looking for events."""

from datetime import date
from uuid import UUID

from pydantic import Field

from boxoffice.common import clock
from boxoffice.common.types import brl, minor
from boxoffice.ticketing.models import Event
from boxoffice.ticketing.selectors.events import events_search
from tools.catalogue.shapes import SOURCE, Line, local
from tools.outside import OutsideText
from tools.registry import tool
from tools.spec import Risk, ToolContext, ToolInput, ToolOutput

MOST_EVENTS = 10


class SearchEventsInput(ToolInput):
    """What to look for; everything may be left out."""

    query: Line | None = Field(
        default=None,
        max_length=200,
        description=(
            "Words that must all occur in the title, category, description, venue or city, in "
            "Portuguese, for example 'jazz' or 'hamlet'. Leave out dates, prices and quantities."
        ),
    )
    date_from: date | None = Field(
        default=None, description="First day, YYYY-MM-DD, in the box office's time zone."
    )
    date_to: date | None = Field(
        default=None,
        description="Last day, included. For one single day give the same as date_from.",
    )
    city: Line | None = Field(default=None, max_length=100, description="City, for example 'Rio'.")
    max_price_brl: float | None = Field(
        default=None,
        gt=0,
        le=1_000_000,
        description="Only events with some seat at or below this price per seat, in BRL.",
    )


class EventOut(ToolOutput):
    """One event with its range of prices (BRL) and the number of seats left."""

    id: UUID
    title: OutsideText
    starts_at: str = Field(description="ISO 8601 with the box office's offset.")
    venue: OutsideText
    city: OutsideText
    category: OutsideText
    price_from_brl: float | None
    price_to_brl: float | None
    seats_free: int


class SearchEventsOutput(ToolOutput):
    """At most ten events, soonest first; ``total`` says how many fit."""

    events: list[EventOut]
    total: int
    source: str
    as_of: str


def _events_fault(result: SearchEventsOutput, arguments: SearchEventsInput) -> str:
    """What the search promises, held against what it gave."""
    if len(result.events) > MOST_EVENTS or result.total < len(result.events):
        return f"{len(result.events)} events of {result.total}"
    if len({event.id for event in result.events}) != len(result.events):
        return "an event twice"
    for event in result.events:
        day = date.fromisoformat(event.starts_at[:10])
        if day < (arguments.date_from or day) or day > (arguments.date_to or day):
            return f"an event on {day}"
        low, limit = event.price_from_brl, arguments.max_price_brl
        if limit is not None and low is not None and low > limit:
            return f"an event from {low}"
    return ""


@tool(
    "search_events",
    risk=Risk.READ,
    check=_events_fault,
    examples=(
        {"date_from": "2026-12-05", "date_to": "2026-12-05", "max_price_brl": 300},
        {"query": "jazz", "city": "Rio de Janeiro"},
    ),
)
def search_events(context: ToolContext, arguments: SearchEventsInput) -> SearchEventsOutput:
    """Find coming events of this box office by words, days, city and price.

    Use it whenever the fan has not yet named one event whose id you know, and first of all when
    they ask for seats on some day. It returns at most 10 events, soonest first, each with id,
    title, start, venue, price range in BRL and the number of free seats; total says how many fit.
    An empty list means that nothing fits: widen the days or drop a word before you say so.
    For the seats of one event call search_seats with its id; this tool returns no seats.
    """
    limit = arguments.max_price_brl
    found = events_search(
        query=arguments.query or "",
        date_from=arguments.date_from,
        date_to=arguments.date_to,
        city=arguments.city or "",
        max_price_minor=None if limit is None else minor(limit),
    )
    events = list(found[: MOST_EVENTS + 1])
    return SearchEventsOutput(
        events=[_row(context, event) for event in events[:MOST_EVENTS]],
        total=len(events) if len(events) <= MOST_EVENTS else found.count(),
        source=SOURCE,
        as_of=local(context, clock.now()),
    )


def _row(context: ToolContext, event: Event) -> EventOut:
    low: int | None = event.price_from  # type: ignore[attr-defined]
    high: int | None = event.price_to  # type: ignore[attr-defined]
    return EventOut(
        id=event.pk,
        title=event.title,
        starts_at=local(context, event.starts_at),
        venue=event.venue.name,
        city=event.venue.city,
        category=event.category,
        price_from_brl=None if low is None else brl(low),
        price_to_brl=None if high is None else brl(high),
        seats_free=event.seats_free,  # type: ignore[attr-defined]
    )

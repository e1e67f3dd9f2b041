"""Looking for seats, holding them, giving them back."""

from typing import Literal
from uuid import UUID

from pydantic import Field

from boxoffice.common import clock
from boxoffice.common.types import JsonObject, brl, minor
from boxoffice.ticketing.exceptions import HoldNotFound, SalesClosed
from boxoffice.ticketing.models.sales import HoldStatus
from boxoffice.ticketing.selectors.events import event_get
from boxoffice.ticketing.selectors.sales import hold_of
from boxoffice.ticketing.selectors.seats import SeatOption, seat_options
from boxoffice.ticketing.services.holds import MOST_SEATS, hold_create, hold_release
from tools.catalogue.shapes import SOURCE, SeatOut, fan_id, local, seats_out
from tools.outside import OutsideText
from tools.registry import tool
from tools.spec import Risk, ToolContext, ToolInput, ToolOutput

MOST_OPTIONS = 5
HALF_A_CENTAVO = 0.005
EXAMPLE_EVENT = "019ae000-0000-7000-8000-000000000001"
EXAMPLE_SEATS = ["019ae000-0000-7000-8000-00000000000a", "019ae000-0000-7000-8000-00000000000b"]
EXAMPLE_HOLD = "019ae000-0000-7000-8000-000000000002"


class SearchSeatsInput(ToolInput):
    """Which event, how many seats, at what price."""

    event_id: UUID = Field(description="The id of an event, from search_events.")
    quantity: int = Field(ge=1, le=MOST_SEATS, description="How many seats, 1 to 6.")
    max_price_brl: float | None = Field(
        default=None, gt=0, le=1_000_000, description="Highest price for each seat, in BRL."
    )
    adjacent: bool = Field(
        default=True,
        description="True: only seats side by side. False: seats apart are offered as well.",
    )


class SeatOptionOut(ToolOutput):
    """Seats that can be held together; ``seat_ids`` is what ``hold_seats`` takes."""

    seat_ids: list[UUID]
    seats: list[SeatOut]
    adjacent: bool
    total_brl: float


class SearchSeatsOutput(ToolOutput):
    """At most five options, the cheapest first."""

    event_id: UUID
    event: OutsideText
    starts_at: str
    options: list[SeatOptionOut]
    source: str
    as_of: str


class HoldSeatsInput(ToolInput):
    """Which seats of which event."""

    event_id: UUID = Field(description="The event that search_seats was asked about.")
    seat_ids: list[UUID] = Field(
        min_length=1,
        max_length=MOST_SEATS,
        description="The seat_ids of one option of search_seats, 1 to 6, each once.",
    )


class HoldOut(ToolOutput):
    """Seats kept for the fan until ``expires_at``."""

    hold_id: UUID
    event_id: UUID
    event: OutsideText
    starts_at: str
    seats: list[SeatOut]
    total_brl: float
    expires_at: str
    status: Literal["active"]


class ReleaseHoldInput(ToolInput):
    """Which hold."""

    hold_id: UUID = Field(description="The hold_id that hold_seats returned.")


class ReleaseHoldOutput(ToolOutput):
    """The hold is over."""

    hold_id: UUID
    status: Literal["released"]


def _seats_fault(result: SearchSeatsOutput, arguments: SearchSeatsInput) -> str:
    """What the search promises, held against what it gave."""
    if len(result.options) > MOST_OPTIONS:
        return f"{len(result.options)} options"
    offered = [seat_id for option in result.options for seat_id in option.seat_ids]
    if len(set(offered)) != len(offered):
        return "a seat is in two options"
    totals = [option.total_brl for option in result.options]
    if totals != sorted(totals):
        return "not the cheapest first"
    for option in result.options:
        prices = [seat.price_brl for seat in option.seats]
        if len(option.seats) != arguments.quantity or len(option.seat_ids) != arguments.quantity:
            return f"an option of {len(option.seats)} seats"
        if arguments.max_price_brl is not None and max(prices) > arguments.max_price_brl:
            return f"a seat for {max(prices)}"
        if abs(sum(prices) - option.total_brl) > HALF_A_CENTAVO:
            return f"a total of {option.total_brl} for {sum(prices)}"
    return ""


@tool(
    "search_seats",
    risk=Risk.READ,
    check=_seats_fault,
    examples=({"event_id": EXAMPLE_EVENT, "quantity": 2, "max_price_brl": 300, "adjacent": True},),
)
def search_seats(context: ToolContext, arguments: SearchSeatsInput) -> SearchSeatsOutput:
    """Find free seats of one event for a number of people, the cheapest first.

    Use it after search_events, when you know the event's id and how many seats are wanted. It
    returns at most 5 options that share no seat, each with seat_ids, section, row, number and
    price of every seat, whether they are side by side, and the total in BRL.
    An empty list means that nothing fits: offer a higher price, fewer seats or adjacent=false.
    It reserves nothing and the seats may go to others at any moment; to keep an option for the
    fan call hold_seats with its seat_ids.
    """
    event = event_get(arguments.event_id)
    if not event.sales_open or event.starts_at <= clock.now():
        raise SalesClosed
    limit = arguments.max_price_brl
    options = seat_options(
        event,
        quantity=arguments.quantity,
        max_price_minor=None if limit is None else minor(limit),
        adjacent=arguments.adjacent,
    )
    return SearchSeatsOutput(
        event_id=event.pk,
        event=event.title,
        starts_at=local(context, event.starts_at),
        options=[_option(option) for option in options],
        source=SOURCE,
        as_of=local(context, clock.now()),
    )


def _option(option: SeatOption) -> SeatOptionOut:
    return SeatOptionOut(
        seat_ids=[seat.id for seat in option.seats],
        seats=seats_out(option.seats),
        adjacent=option.adjacent,
        total_brl=brl(option.total_minor),
    )


def _release(result: JsonObject) -> tuple[str, JsonObject]:
    return "release_hold", {"hold_id": result["hold_id"]}


def _is_held(context: ToolContext, result: JsonObject) -> bool | None:
    try:
        hold = hold_of(hold_id=UUID(result["hold_id"]), user_id=fan_id(context))
    except HoldNotFound:
        return False
    if hold.status == HoldStatus.PAYING:
        return None  # it is being paid: the seats are bought, or they are free again
    return hold.status == HoldStatus.ACTIVE


def _hold_fault(result: HoldOut, arguments: HoldSeatsInput) -> str:
    held = {seat.id for seat in result.seats}
    return "" if held == set(arguments.seat_ids) else "other seats than were asked for"


@tool(
    "hold_seats",
    risk=Risk.WRITE_REVERSIBLE,
    check=_hold_fault,
    inverse=_release,
    stands=_is_held,
    examples=({"event_id": EXAMPLE_EVENT, "seat_ids": EXAMPLE_SEATS},),
)
def hold_seats(context: ToolContext, arguments: HoldSeatsInput) -> HoldOut:
    """Keep seats of one event for this fan for ten minutes, all of them or none.

    Use it when the fan asks to reserve or hold seats that search_seats offered; it costs nothing
    and ends by itself. It returns the hold_id, the seats with their prices, the total in BRL and
    the moment when the hold ends; tell the fan that moment.
    When a seat was taken meanwhile nothing is held and the error seats_taken names it: call
    search_seats again and take another option. To pay call place_order with the hold_id; to give
    the seats back call release_hold.
    """
    user_id = fan_id(context)
    made = hold_create(event_id=arguments.event_id, seat_ids=arguments.seat_ids, user_id=user_id)
    hold = hold_of(hold_id=made.pk, user_id=user_id)
    return HoldOut(
        hold_id=hold.id,
        event_id=hold.event.pk,
        event=hold.event.title,
        starts_at=local(context, hold.event.starts_at),
        seats=seats_out(hold.seats),
        total_brl=brl(hold.total_minor),
        expires_at=local(context, hold.expires_at),
        status="active",
    )


@tool("release_hold", risk=Risk.WRITE_REVERSIBLE, examples=({"hold_id": EXAMPLE_HOLD},))
def release_hold(context: ToolContext, arguments: ReleaseHoldInput) -> ReleaseHoldOutput:
    """Give a hold of this fan back, so that others can have the seats.

    Use it when the fan no longer wants what is held, or before holding other seats instead. It
    returns the hold_id with status released; a hold that had ended before gives the same answer.
    Seats that were bought are no hold any more: for these use refund_order with the order_id.
    """
    hold = hold_release(hold_id=arguments.hold_id, user_id=fan_id(context))
    return ReleaseHoldOutput(hold_id=hold.pk, status="released")

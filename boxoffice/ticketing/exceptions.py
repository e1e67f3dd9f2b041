"""What can go wrong at the box office, in words for a fan and for a model."""

from collections.abc import Sequence

from django.utils.translation import gettext as _

from boxoffice.common.exceptions import BoxOfficeError, Conflict, InvalidInput, NotFound


class EventNotFound(NotFound):
    """The event does not exist here, or is another tenant's."""

    code = "event_not_found"
    hint = "Call search_events to get the ids of the events."

    def __init__(self) -> None:
        super().__init__("event not found")


class HoldNotFound(NotFound):
    """Absent, somebody else's or another tenant's: the answer is the same."""

    code = "hold_not_found"
    hint = "Use the hold_id that hold_seats returned in this conversation."

    def __init__(self) -> None:
        super().__init__("hold not found")


class OrderNotFound(NotFound):
    """Absent, somebody else's or another tenant's: the answer is the same."""

    code = "order_not_found"
    hint = "Ask the fan for the order number; place_order returned it as order_id."

    def __init__(self) -> None:
        super().__init__("order not found")


class BadSeats(InvalidInput):
    """The seats asked for are not 1 to 6 different seats that this event sells."""

    code = "bad_seats"
    hint = "Call search_seats for this event and pass the seat_ids of one of its options."


class SalesClosed(Conflict):
    """The event has begun, or does not sell at the moment."""

    code = "sales_closed"
    hint = "Call search_events for another date or event."

    def __init__(self) -> None:
        super().__init__(_("Tickets for this event are not on sale."))


class SeatsTaken(Conflict):
    """Somebody else was faster. ``seats`` are those taken, as section, row and number."""

    code = "seats_taken"
    hint = "Call search_seats again and offer other seats; nothing was held."

    def __init__(self, seats: Sequence[str], *, hint: str | None = None) -> None:
        if seats:
            names = "; ".join(seats)
            message = _("These seats were just taken: %(seats)s.") % {"seats": names}
        else:  # and given back since
            message = _("These seats were just taken.")
        super().__init__(message, hint=hint)
        self.seats = list(seats)
        self.extra = {"seats": self.seats}


class HoldExpired(Conflict):
    """The time of the hold is over; its seats are free for others."""

    code = "hold_expired"
    hint = "Call search_seats and hold_seats again, then ask the fan to confirm again."

    def __init__(self) -> None:
        super().__init__(_("The hold has expired."))


class HoldNotActive(Conflict):
    """The hold was released or bought before."""

    code = "hold_not_active"
    hint = "Hold the seats again, or look the order up with get_order_status."

    def __init__(self, status: str) -> None:
        super().__init__(_("The hold is no longer active: %(status)s.") % {"status": status})
        self.hold_status = status


class KeyReused(Conflict):
    """An idempotency key came a second time for something else."""

    code = "key_reused"

    def __init__(self) -> None:
        super().__init__(_("This key was used for something else."))


class AlreadyRefunded(Conflict):
    """An order is refunded once."""

    code = "already_refunded"
    hint = "Call get_order_status to see the refund."

    def __init__(self) -> None:
        super().__init__(_("This order was refunded before."))


class RefundUnderWay(Conflict):
    """The money is on its way back already."""

    code = "refund_under_way"
    hint = "Call get_order_status later to see what became of it."

    def __init__(self) -> None:
        super().__init__(_("A refund of this order is under way."))


class PaymentSettled(Conflict):
    """What became of the payment is written down already, and it is something else."""

    code = "payment_settled"

    def __init__(self) -> None:
        super().__init__(_("What became of this payment was written down before."))


class PaymentRefused(BoxOfficeError):
    """The payment provider does not take the request as it is; no money was moved."""

    code = "payment_refused"
    status = 502
    hint = "Nothing was changed. Say so, and offer to hand over to a person of the box office."


class PaymentDeclined(BoxOfficeError):
    """The payment provider said no; nothing was bought, and the hold stays."""

    code = "payment_declined"
    status = 402
    hint = "Tell the fan that the payment was declined; the seats are still held."

"""What a box office knows: places, events, sales and messages."""

from boxoffice.ticketing.models.events import Event, Price
from boxoffice.ticketing.models.messages import OutboundEmail, SupportTicket
from boxoffice.ticketing.models.places import Seat, Section, Venue
from boxoffice.ticketing.models.sales import Hold, Order, Payment, Refund, SeatClaim

__all__ = [
    "Event",
    "Hold",
    "Order",
    "OutboundEmail",
    "Payment",
    "Price",
    "Refund",
    "Seat",
    "SeatClaim",
    "Section",
    "SupportTicket",
    "Venue",
]

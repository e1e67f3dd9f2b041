"""Support tickets: what a person of the tenant should look at."""

from boxoffice.common.transitions import transition
from boxoffice.ticketing.models import SupportTicket
from boxoffice.ticketing.models.messages import TICKET, TicketStatus


def ticket_create(*, subject: str, body: str, user_id: int | None, key: str) -> SupportTicket:
    """Open a ticket; a repeat with the same ``key`` returns the same one."""
    ticket: SupportTicket
    ticket, _ = SupportTicket.objects.get_or_create(
        reference=key, defaults={"subject": subject, "body": body, "user_id": user_id}
    )
    return ticket


def ticket_close(*, ticket: SupportTicket) -> bool:
    """Close an open ticket; ``False`` when somebody else closed it."""
    return transition(SupportTicket.objects.filter(pk=ticket.pk), TICKET, TicketStatus.CLOSED) == 1

"""E-mail and support tickets."""

from typing import Annotated, Literal
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import override
from pydantic import EmailStr, Field

from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import User
from boxoffice.ticketing.services.emails import email_queue
from boxoffice.ticketing.services.tickets import ticket_create
from tools.catalogue.shapes import Line, Text, fan_id
from tools.personal import Personal, PersonalText
from tools.registry import tool
from tools.spec import Gate, Rate, Risk, ToolContext, ToolInput, ToolOutput


class SendEmailInput(ToolInput):
    """Whom to write what."""

    to: Annotated[EmailStr, Personal()] = Field(
        max_length=254, description="One address, as the fan gave it."
    )
    subject: Annotated[Line, Personal()] = Field(
        min_length=1, max_length=150, description="One line."
    )
    body: Annotated[Text, Personal()] = Field(
        min_length=1, max_length=10_000, description="Plain text."
    )


class SendEmailOutput(ToolOutput):
    """The e-mail is on its way."""

    email_id: UUID
    to: PersonalText
    status: Literal["queued"]


class CreateTicketInput(ToolInput):
    """What the box office should look at."""

    subject: Annotated[Line, Personal()] = Field(
        min_length=3, max_length=150, description="One line that names it."
    )
    body: Annotated[Text, Personal()] = Field(
        min_length=3,
        max_length=5_000,
        description="What happened and what the fan wants, with the order number if there is one.",
    )


class CreateTicketOutput(ToolOutput):
    """Somebody will look at it."""

    ticket_id: UUID
    status: Literal["open"]


def _email_preview(context: ToolContext, arguments: SendEmailInput) -> JsonObject:
    user = User.objects.get(pk=fan_id(context))
    with override(context.language):
        summary = _("Send an e-mail to %(to)s: %(subject)s") % {
            "to": arguments.to,
            "subject": arguments.subject,
        }
        undo = _("Irreversible: a sent e-mail cannot be called back.")
        is_own = arguments.to.casefold() == user.email.casefold()
        warnings = [] if is_own else [_("This is not the fan's own address.")]
    return {
        "summary": summary,
        "before": {},
        "after": {"to": arguments.to, "subject": arguments.subject, "body": arguments.body},
        "warnings": warnings,
        "undo": undo,
    }


@tool(
    "send_email",
    risk=Risk.DESTRUCTIVE,
    gate=Gate.REVIEWER,
    preview=_email_preview,
    rate=Rate(per_minute=5, tenant_per_minute=300),
    examples=(
        {
            "to": "ana@example.com",
            "subject": "Seus ingressos para sábado",
            "body": "Olá, Ana! Seu pedido está pago. Até sábado!",
        },
    ),
)
def send_email(context: ToolContext, arguments: SendEmailInput) -> SendEmailOutput:
    """Write an e-mail in the name of the box office to one address.

    Use it only when the fan asks for an e-mail and has given the address; never to answer what
    the chat can answer. A reviewer of the box office reads and decides first, so tell the fan
    that it waits for approval. It returns the email_id and the status queued; delivery follows.
    To reach a person of the box office use create_ticket instead.
    """
    email = email_queue(
        to=arguments.to,
        subject=arguments.subject,
        body=arguments.body,
        user_id=fan_id(context),
        key=context.idempotency_key,
    )
    return SendEmailOutput(email_id=email.pk, to=email.to, status="queued")


@tool(
    "create_ticket",
    risk=Risk.WRITE_REVERSIBLE,
    rate=Rate(per_minute=10, tenant_per_minute=600),
    examples=(
        {
            "subject": "Entrada para cadeira de rodas",
            "body": "O fã pergunta qual é a entrada acessível no sábado.",
        },
    ),
)
def create_ticket(context: ToolContext, arguments: CreateTicketInput) -> CreateTicketOutput:
    """Open a support ticket, which a person of the box office will read and answer.

    Use it when the fan asks for a person, complains, or needs something that no other tool can
    do; try search_events, get_order_status or refund_order first when they fit. It returns the
    ticket_id and the status open. Write the fan's wish and the ids in question into the body,
    because the reader does not see this conversation.
    """
    ticket = ticket_create(
        subject=arguments.subject,
        body=arguments.body,
        user_id=fan_id(context),
        key=context.idempotency_key,
    )
    return CreateTicketOutput(ticket_id=ticket.pk, status="open")

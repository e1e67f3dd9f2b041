"""What leaves the box office in words: support tickets and e-mail."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from boxoffice.common.transitions import machine
from boxoffice.tenancy.models import TenantModel, User


class TicketStatus(models.TextChoices):
    """Where a support ticket stands."""

    OPEN = "open", _("open")
    CLOSED = "closed", _("closed")


TICKET = machine("status", {TicketStatus.OPEN: {TicketStatus.CLOSED}, TicketStatus.CLOSED: set()})


class SupportTicket(TenantModel):
    """Something that a person of the tenant should look at."""

    user = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="support_tickets", null=True, blank=True
    )
    subject = models.CharField(_("subject"), max_length=200)
    body = models.TextField(_("text"))
    reference = models.CharField(_("reference"), max_length=200)
    status = models.CharField(
        _("status"), max_length=16, choices=TicketStatus, default=TicketStatus.OPEN
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("support ticket")
        verbose_name_plural = _("support tickets")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "reference"], name="ticket_reference_once"),
            models.CheckConstraint(
                condition=Q(status__in=TicketStatus.values), name="ticket_status_known"
            ),
        ]
        indexes = [models.Index(fields=["tenant", "status"], name="ticket_tenant_status")]

    def __str__(self) -> str:
        return self.subject


class EmailStatus(models.TextChoices):
    """Where an e-mail stands."""

    QUEUED = "queued", _("queued")
    SENDING = "sending", _("being sent")
    SENT = "sent", _("sent")
    FAILED = "failed", _("failed")
    UNKNOWN = "unknown", _("outcome unknown")


EMAIL = machine(
    "status",
    {
        EmailStatus.QUEUED: {EmailStatus.SENDING, EmailStatus.SENT, EmailStatus.FAILED},
        EmailStatus.SENDING: {
            EmailStatus.SENT,
            EmailStatus.QUEUED,  # the server refused it: to be tried again
            EmailStatus.FAILED,
            EmailStatus.UNKNOWN,
        },
        # A person decides: it went out, or it is sent again.
        EmailStatus.UNKNOWN: {EmailStatus.SENT, EmailStatus.QUEUED},
        EmailStatus.SENT: set(),
        EmailStatus.FAILED: set(),
    },
)


class OutboundEmail(TenantModel):
    """An e-mail on its way; ``message_id`` is made of the key with which it was asked for."""

    user = models.ForeignKey(
        User, on_delete=models.SET_NULL, related_name="outbound_emails", null=True, blank=True
    )
    to = models.EmailField(_("to"))
    subject = models.CharField(_("subject"), max_length=200)
    body = models.TextField(_("text"))
    message_id = models.CharField(_("Message-ID"), max_length=200, unique=True)
    status = models.CharField(
        _("status"), max_length=16, choices=EmailStatus, default=EmailStatus.QUEUED
    )
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    next_attempt_at = models.DateTimeField(_("next attempt at"))
    last_error = models.CharField(_("last error"), max_length=300, blank=True, default="")
    sending_since = models.DateTimeField(_("being sent since"), null=True, blank=True)
    sent_at = models.DateTimeField(_("sent at"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("e-mail")
        verbose_name_plural = _("e-mails")
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=EmailStatus.values), name="email_status_known"
            ),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "next_attempt_at"],
                condition=Q(status="queued"),
                name="email_tenant_due",
            ),
            models.Index(
                fields=["sending_since"], condition=Q(status="sending"), name="email_sending"
            ),
        ]

    def __str__(self) -> str:
        return self.subject

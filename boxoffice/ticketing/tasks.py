"""Celery's doors: sweeps over all tenants, each tenant's work in its own scope."""

from uuid import UUID

from celery import shared_task

from boxoffice.common import clock
from boxoffice.tenancy.scope import operator_scope, tenant_scope
from boxoffice.ticketing.models import Hold, OutboundEmail
from boxoffice.ticketing.models.messages import EmailStatus
from boxoffice.ticketing.models.sales import HoldStatus
from boxoffice.ticketing.services.emails import email_deliver, email_deliver_due, emails_lose
from boxoffice.ticketing.services.holds import holds_expire


@shared_task(name="ticketing.expire_holds")  # type: ignore[untyped-decorator]
def expire_holds() -> None:
    """End the holds whose time is over, tenant by tenant."""
    with operator_scope("which tenants have overdue holds"):
        tenant_ids = set(
            Hold.objects.filter(status=HoldStatus.ACTIVE, expires_at__lte=clock.now()).values_list(
                "tenant_id", flat=True
            )
        )
    for tenant_id in sorted(tenant_ids):
        with tenant_scope(tenant_id):
            holds_expire()


@shared_task(name="ticketing.deliver_email")  # type: ignore[untyped-decorator]
def deliver_email(tenant_id: str, email_id: str) -> None:
    """Send one e-mail; harmless when it was sent before."""
    with tenant_scope(UUID(tenant_id)):
        email_deliver(email_id=UUID(email_id))


@shared_task(name="ticketing.deliver_emails")  # type: ignore[untyped-decorator]
def deliver_emails() -> None:
    """Send what is due: second tries, and what a lost wake-up or a lost sender left behind."""
    with operator_scope("which tenants have e-mail to send"):
        tenant_ids = set(
            OutboundEmail.objects.filter(
                status=EmailStatus.QUEUED, next_attempt_at__lte=clock.now()
            ).values_list("tenant_id", flat=True)
        )
        interrupted = set(
            OutboundEmail.objects.filter(status=EmailStatus.SENDING).values_list(
                "tenant_id", flat=True
            )
        )
    for tenant_id in sorted(interrupted):
        with tenant_scope(tenant_id):
            emails_lose()
    for tenant_id in sorted(tenant_ids):
        with tenant_scope(tenant_id):
            email_deliver_due()

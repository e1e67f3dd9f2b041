"""E-mail: queued with its cause, sent after the commit, tried again when the server fails.

A row is locked while its message is handed to the mail server. Should the process die between
the two, the message goes out again with the same Message-ID, which mail systems take as one.
"""

import hashlib
import logging
from datetime import timedelta
from functools import partial
from uuid import UUID

from celery import current_app
from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction

from boxoffice.common import clock
from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.transitions import transition
from boxoffice.tenancy.scope import current_tenant_id
from boxoffice.ticketing.models import OutboundEmail
from boxoffice.ticketing.models.messages import EMAIL, EmailStatus

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 30
_BATCH = 100


def email_queue(
    *, to: str, subject: str, body: str, user_id: int | None, key: str
) -> OutboundEmail:
    """Queue an e-mail and wake the sender after the commit; a repeat of ``key`` queues nothing.

    Raises ``InvalidInput`` for a subject of several lines.
    """
    if "\n" in subject or "\r" in subject:
        raise InvalidInput("subject: one line.")
    tenant_id = current_tenant_id()
    email: OutboundEmail
    email, created = OutboundEmail.objects.get_or_create(
        message_id=_message_id(tenant_id, key),
        defaults={
            "to": to,
            "subject": subject,
            "body": body,
            "user_id": user_id,
            "next_attempt_at": clock.now(),
        },
    )
    if created:
        # Robust: with the broker away the scheduler finds the row a little later.
        transaction.on_commit(partial(_wake, tenant_id, email.pk), robust=True)
    return email


def email_deliver_due() -> int:
    """Send the queued e-mails of the open scope that are due. Returns how many went out."""
    due = list(
        OutboundEmail.objects.filter(
            status=EmailStatus.QUEUED, next_attempt_at__lte=clock.now()
        ).values_list("pk", flat=True)[:_BATCH]
    )
    return sum(email_deliver(email_id=email_id) for email_id in due)


def email_deliver(*, email_id: UUID) -> bool:
    """Send one queued e-mail if it is due and nobody else is at it; says whether it went out."""
    with transaction.atomic():
        email = (
            OutboundEmail.objects.select_for_update(skip_locked=True, no_key=True)
            .filter(pk=email_id, status=EmailStatus.QUEUED, next_attempt_at__lte=clock.now())
            .first()
        )
        if email is None:
            return False
        try:
            _message(email).send()
        except Exception as error:  # noqa: BLE001 - whatever the mail server does, the row stays
            _note_failure(email, error)
            return False
        transition(
            OutboundEmail.objects.filter(pk=email.pk),
            EMAIL,
            EmailStatus.SENT,
            sent_at=clock.now(),
            attempts=email.attempts + 1,
        )
        return True


def _note_failure(email: OutboundEmail, error: Exception) -> None:
    logger.warning("e-mail %s was not sent: %s", email.pk, type(error).__name__)
    row = OutboundEmail.objects.filter(pk=email.pk)
    attempts = email.attempts + 1
    row.update(
        attempts=attempts,
        last_error=f"{type(error).__name__}: {error}"[:300],
        next_attempt_at=clock.now() + timedelta(seconds=_FIRST_PAUSE_SECONDS * 2**email.attempts),
    )
    if attempts >= MOST_ATTEMPTS:
        transition(row, EMAIL, EmailStatus.FAILED)


def _message(email: OutboundEmail) -> EmailMessage:
    return EmailMessage(
        subject=email.subject,
        body=email.body,
        from_email=settings.DEFAULT_FROM_EMAIL,
        to=[email.to],
        headers={"Message-ID": email.message_id},
    )


def _message_id(tenant_id: UUID, key: str) -> str:
    digest = hashlib.sha256(f"{tenant_id}:{key}".encode()).hexdigest()[:40]
    host = settings.DEFAULT_FROM_EMAIL.rpartition("@")[2].rstrip(">") or "localhost"
    return f"<{digest}@{host}>"


def _wake(tenant_id: UUID, email_id: UUID) -> None:
    current_app.send_task(
        "ticketing.deliver_email", args=[str(tenant_id), str(email_id)], retry=False
    )

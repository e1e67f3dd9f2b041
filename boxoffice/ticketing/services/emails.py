"""E-mail: queued with its cause, sent after the commit, tried again when the server refuses it.

An e-mail is marked as being sent before the mail server is spoken to. Should the process die in
the middle, nobody knows whether it went out: a person decides, it is never sent twice blindly.
"""

import hashlib
import logging
import smtplib
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import UUID

from celery import current_app
from django.conf import settings
from django.core.mail import EmailMessage, mailers
from django.db import transaction
from django.db.models import F, QuerySet

from boxoffice.audit import services as audit
from boxoffice.common import clock, crash
from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.transitions import transition
from boxoffice.tenancy.scope import current_tenant_id
from boxoffice.ticketing.models import OutboundEmail
from boxoffice.ticketing.models.messages import EMAIL, EmailStatus

logger = logging.getLogger(__name__)

MOST_ATTEMPTS = 6
_FIRST_PAUSE_SECONDS = 30
_BATCH = 100
# Far longer than a mail server is waited for.
_SENDING_SECONDS = 300


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
    """Send one queued e-mail if it is due and nobody else is at it; says whether it went out.

    No transaction is open while the mail server is spoken to.
    """
    email = _take(email_id)
    if email is None:
        return False
    crash.point("email_begun")
    try:
        _send(_message(email))
    except _Refused as refused:
        _note_failure(email, refused.error)
        return False
    except Exception as error:
        logger.exception("e-mail %s: nobody knows whether it went out", email.pk)
        _lost(_attempt(email), _words(error))
        return False
    crash.point("email_sent")
    # From unknown too: a sender that was slow knows better than the clock.
    moved = transition(_attempt(email), EMAIL, EmailStatus.SENT, sent_at=clock.now(), last_error="")
    return moved == 1


def _take(email_id: UUID) -> OutboundEmail | None:
    with transaction.atomic():
        row = OutboundEmail.objects.filter(pk=email_id)
        taken = transition(
            row.filter(next_attempt_at__lte=clock.now()),
            EMAIL,
            EmailStatus.SENDING,
            only_from=EmailStatus.QUEUED,
            sending_since=clock.now(),
            attempts=F("attempts") + 1,
        )
        return row.get() if taken else None


def _attempt(email: OutboundEmail) -> QuerySet[OutboundEmail]:
    """The e-mail, as long as nobody has begun to send it anew: who comes late changes nothing."""
    rows: QuerySet[OutboundEmail] = OutboundEmail.objects.filter(pk=email.pk)
    return rows.filter(attempts=email.attempts)


def emails_lose() -> int:
    """E-mails of the open scope whose sender is gone: nobody knows whether they went out."""
    late = clock.now() - timedelta(seconds=_SENDING_SECONDS)
    rows = OutboundEmail.objects.filter(status=EmailStatus.SENDING, sending_since__lte=late)
    return _lost(rows, "the sender was interrupted")


def email_settle(*, email_id: UUID, went_out: bool, actor: str) -> bool:
    """A person has found out whether an e-mail went out: if not, it is sent again.

    Says whether it was still unknown: the first who settles it counts.
    """
    row = OutboundEmail.objects.filter(pk=email_id)
    with transaction.atomic():
        if went_out:
            moved = transition(
                row, EMAIL, EmailStatus.SENT, only_from=EmailStatus.UNKNOWN, sent_at=clock.now()
            )
        else:
            moved = transition(
                row,
                EMAIL,
                EmailStatus.QUEUED,
                only_from=EmailStatus.UNKNOWN,
                next_attempt_at=clock.now(),
            )
        if not moved:
            return False
        audit.record(
            action="ticketing.email.settled",
            actor=actor,
            target=f"email:{email_id}",
            details={"went_out": went_out},
        )
        if not went_out:
            transaction.on_commit(partial(_wake, current_tenant_id(), email_id), robust=True)
    return True


class _Refused(Exception):
    """The server surely does not have the e-mail: it can be sent again."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


# What a server says before it has taken an e-mail.
_SAID_NO = (
    smtplib.SMTPResponseException,
    smtplib.SMTPRecipientsRefused,
    smtplib.SMTPNotSupportedError,
)


def _send(message: EmailMessage) -> None:
    """Hand an e-mail to the server. Raises ``_Refused``; whatever else it raises leaves doubt."""
    mailer = mailers.default
    try:
        mailer.open()
    except Exception as error:
        raise _Refused(error) from error
    try:
        sent = mailer.send_messages([message])
    except _SAID_NO as error:
        raise _Refused(error) from error
    finally:
        with suppress(OSError, smtplib.SMTPException):  # the e-mail is there, or it is not
            mailer.close()
    if sent != 1:
        raise _Refused(RuntimeError("the mail server took nothing"))


def _lost(rows: QuerySet[OutboundEmail], why: str) -> int:
    return transition(rows, EMAIL, EmailStatus.UNKNOWN, last_error=why[:300])


def _note_failure(email: OutboundEmail, error: Exception) -> None:
    logger.warning("e-mail %s was not sent: %s", email.pk, type(error).__name__)
    is_last = email.attempts >= MOST_ATTEMPTS
    pause = timedelta(seconds=_FIRST_PAUSE_SECONDS * 2 ** (email.attempts - 1))
    transition(
        _attempt(email),
        EMAIL,
        EmailStatus.FAILED if is_last else EmailStatus.QUEUED,
        only_from=EmailStatus.SENDING,
        last_error=_words(error),
        next_attempt_at=clock.now() + pause,
    )


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


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

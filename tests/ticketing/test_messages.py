"""E-mail goes out once, is tried again, and gives up; tickets open and close once."""

import smtplib
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection

from boxoffice.audit.models import AuditRecord
from boxoffice.common import clock
from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.transitions import transition
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing import tasks
from boxoffice.ticketing.models import OutboundEmail
from boxoffice.ticketing.models.messages import EMAIL
from boxoffice.ticketing.services import emails
from boxoffice.ticketing.services.emails import (
    email_deliver_due,
    email_queue,
    email_settle,
    emails_lose,
)
from boxoffice.ticketing.services.tickets import ticket_close, ticket_create
from tests.ticketing.factory import House, make_house


def queue(key: str = "k", subject: str = "Oi") -> OutboundEmail:
    return email_queue(to="ana@example.com", subject=subject, body="Olá", user_id=None, key=key)


def refuse(*args: object, **kwargs: object) -> int:
    raise smtplib.SMTPDataError(452, "mailbox full")


def timed_out(*args: object) -> bool:
    raise TimeoutError("timed out")


def fail(*args: object, **kwargs: object) -> int:
    raise ConnectionRefusedError("no mail server")


def test_a_queued_email_goes_out_once(house: House) -> None:
    first = queue()
    assert queue().pk == first.pk
    assert email_deliver_due() == 1
    assert email_deliver_due() == 0
    [message] = mail.outbox
    assert (message.to, message.subject) == (["ana@example.com"], "Oi")
    assert message.extra_headers["Message-ID"] == first.message_id
    first.refresh_from_db()
    assert (first.status, first.attempts) == ("sent", 1)
    assert first.sent_at is not None


def test_other_keys_and_other_tenants_have_other_message_ids(db: None) -> None:
    ids = set()
    for slug in ("arena", "teatro"):
        with tenant_scope(make_house(slug).tenant.pk):
            ids |= {queue("a").message_id, queue("b").message_id}
    assert len(ids) == 4
    assert all(one.startswith("<") and one.endswith("@example.com>") for one in ids)


def test_a_failing_server_is_tried_again_later_and_at_last_given_up(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = queue()
    monkeypatch.setattr(EmailBackend, "send_messages", refuse)
    pauses = []
    for attempt in range(1, emails.MOST_ATTEMPTS + 1):
        assert email_deliver_due() == 0
        email.refresh_from_db()
        assert email.attempts == attempt
        pauses.append(email.next_attempt_at - clock.now())
        assert email_deliver_due() == 0
        OutboundEmail.objects.filter(pk=email.pk).update(next_attempt_at=clock.now())
    email.refresh_from_db()
    assert (email.status, email.attempts) == ("failed", emails.MOST_ATTEMPTS)
    assert "mailbox full" in email.last_error
    assert pauses == sorted(pauses)
    assert pauses[0] > timedelta(0)
    monkeypatch.undo()
    assert email_deliver_due() == 0


def test_after_a_failure_the_next_try_sends(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    email = queue()
    with monkeypatch.context() as patch:
        patch.setattr(EmailBackend, "send_messages", refuse)
        email_deliver_due()
    OutboundEmail.objects.filter(pk=email.pk).update(next_attempt_at=clock.now())
    assert email_deliver_due() == 1
    assert len(mail.outbox) == 1


def test_a_subject_of_two_lines_is_refused(house: House) -> None:
    with pytest.raises(InvalidInput, match="subject"):
        queue(subject="Oi\r\nBcc: all@example.com")


def test_the_commit_wakes_the_sender_once(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: object,
) -> None:
    sent: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(
        emails.current_app, "send_task", lambda name, args, **_: sent.append((name, args))
    )
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        email = queue()
        queue()
    assert sent == [("ticketing.deliver_email", [str(house.tenant.pk), str(email.pk)])]


def test_a_broker_that_is_away_does_not_lose_the_email(
    house: House,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: object,
) -> None:
    monkeypatch.setattr(emails.current_app, "send_task", fail)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator]
        email = queue()
    email.refresh_from_db()
    assert email.status == "queued"


def test_the_tasks_open_the_scope_themselves(db: None) -> None:
    houses = [make_house("arena"), make_house("teatro")]
    for house in houses:
        with tenant_scope(house.tenant.pk):
            email = queue()
    tasks.deliver_email(str(houses[1].tenant.pk), str(email.pk))
    assert len(mail.outbox) == 1
    tasks.deliver_emails()
    assert len(mail.outbox) == 2
    tasks.deliver_emails()
    assert len(mail.outbox) == 2


def test_a_ticket_opens_and_closes_once(house: House) -> None:
    ticket = ticket_create(subject="Oi", body="Ajuda", user_id=house.ana.pk, key="k")
    again = ticket_create(subject="Oi", body="Ajuda", user_id=house.ana.pk, key="k")
    assert ticket.pk == again.pk
    assert ticket_close(ticket=ticket)
    assert not ticket_close(ticket=ticket)
    ticket.refresh_from_db()
    assert ticket.status == "closed"


_take = EmailBackend.send_messages


def hangs_up(backend: EmailBackend, messages: Sequence[EmailMessage]) -> int:
    """The mail server has the e-mail, and the connection breaks."""
    _take(backend, messages)
    raise smtplib.SMTPServerDisconnected("Connection unexpectedly closed")


def test_an_email_whose_end_nobody_saw_waits_for_a_person(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = queue()
    with monkeypatch.context() as patch:
        patch.setattr(EmailBackend, "send_messages", hangs_up)
        assert email_deliver_due() == 0
    email.refresh_from_db()
    assert (email.status, email.attempts) == ("unknown", 1)
    assert "unexpectedly closed" in email.last_error
    OutboundEmail.objects.update(next_attempt_at=clock.now())
    assert email_deliver_due() == 0
    assert len(mail.outbox) == 1  # it went out, and never again by itself
    assert email_settle(email_id=email.pk, went_out=True, actor="user:1")
    assert not email_settle(email_id=email.pk, went_out=False, actor="user:1")
    email.refresh_from_db()
    assert email.status == "sent"
    record = AuditRecord.objects.get(action="ticketing.email.settled")
    assert record.details == {"went_out": True}


def test_a_sender_that_is_gone_leaves_an_email_unknown_until_it_is_sent_again(
    house: House,
) -> None:
    email = queue()
    since = clock.now() - timedelta(minutes=10)
    row = OutboundEmail.objects.filter(pk=email.pk)
    transition(row, EMAIL, "sending", sending_since=clock.now())
    assert emails_lose() == 0  # somebody may still be at it
    row.update(sending_since=since)
    assert emails_lose() == 1
    assert row.get().status == "unknown"
    assert email_settle(email_id=email.pk, went_out=False, actor="user:1")
    assert email_deliver_due() == 1
    assert len(mail.outbox) == 1
    assert row.get().status == "sent"


@pytest.mark.parametrize("end", [refuse, hangs_up, _take], ids=["refused", "lost", "sent"])
def test_a_sender_that_comes_late_leaves_the_next_attempt_alone(
    house: House, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    """It was given up for lost, a person had it sent again, and that is under way."""
    email = queue()
    row = OutboundEmail.objects.filter(pk=email.pk)

    def slow(backend: EmailBackend, messages: Sequence[EmailMessage]) -> int:
        row.update(sending_since=clock.now() - timedelta(minutes=10))
        assert emails_lose() == 1
        assert email_settle(email_id=email.pk, went_out=False, actor="user:1")
        moved = transition(
            row, EMAIL, "sending", attempts=2, sending_since=clock.now(), last_error="second"
        )
        assert moved == 1
        sent: int = end(backend, messages)
        return sent

    monkeypatch.setattr(EmailBackend, "send_messages", slow)
    assert email_deliver_due() == 0
    email.refresh_from_db()
    assert (email.status, email.attempts, email.last_error) == ("sending", 2, "second")


def test_a_slow_sender_knows_better_than_the_clock(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = queue()

    def slow(backend: EmailBackend, messages: Sequence[EmailMessage]) -> int:
        OutboundEmail.objects.update(sending_since=clock.now() - timedelta(minutes=10))
        assert emails_lose() == 1
        return _take(backend, messages)

    monkeypatch.setattr(EmailBackend, "send_messages", slow)
    assert email_deliver_due() == 1
    email.refresh_from_db()
    assert email.status == "sent"


def test_a_server_that_cannot_be_reached_is_tried_again(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    email = queue()
    monkeypatch.setattr(EmailBackend, "open", timed_out)
    assert email_deliver_due() == 0
    email.refresh_from_db()
    assert (email.status, email.attempts) == ("queued", 1)
    assert mail.outbox == []


def test_no_transaction_is_open_while_the_mail_server_is_spoken_to(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []

    def look(backend: EmailBackend, messages: Sequence[EmailMessage]) -> int:
        seen.append(connection.in_atomic_block)
        return len(messages)

    monkeypatch.setattr(EmailBackend, "send_messages", look)
    with tenant_scope(make_house("arena").tenant.pk):
        queue()
        assert email_deliver_due() == 1
        assert OutboundEmail.objects.get().status == "sent"
    assert seen == [False]

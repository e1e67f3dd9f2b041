"""Reviewers get a mail about what waits, once, in their language, with a link that opens it."""

from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pytest
from django.core import mail
from django.core.mail import EmailMessage
from django.utils import timezone

from approvals import notices, services, tasks
from approvals.models import ApprovalRequest
from boxoffice.tenancy.models import Membership
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast


def notify(request: ApprovalRequest) -> None:
    tasks.notify(tenant_id=str(request.tenant_id), request_id=str(request.pk))


def recipients() -> set[str]:
    return {address for message in mail.outbox for address in message.to}


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.PUBLIC_URL = "https://tickets.example.com/"


def test_the_tenants_reviewers_are_written_to(cast: Cast, ask: Any) -> None:
    request = ask()
    notify(request)
    # Not anita, who carries ana's address, and not the other tenant's.
    assert recipients() == {"rita@example.com", "raul@example.com", "ada@example.com"}
    assert all(len(message.to) == 1 for message in mail.outbox)
    link = f"https://tickets.example.com/t/arena/approvals/{request.pk}/"
    for message in mail.outbox:
        assert "refund_order" in message.subject
        assert "[Arena]" in message.subject
        assert link in message.body
        assert "Refund R$ 480.00" in message.body
    assert (
        cast.client("rita").get(link.removeprefix("https://tickets.example.com")).status_code == 200
    )


def test_each_reads_it_in_their_own_language(cast: Cast, ask: Any) -> None:
    cast.rita.language = "en"
    cast.rita.save()
    notify(ask())
    (message,) = [message for message in mail.outbox if message.to == ["rita@example.com"]]
    assert "waits for a reviewer" in message.subject


def test_a_line_break_does_not_make_a_header(cast: Cast, ask: Any) -> None:
    notify(ask(action="x\nBcc: all@example.com"))
    assert all("\n" not in message.subject for message in mail.outbox)
    assert len(mail.outbox) == 3


def test_it_is_sent_once(cast: Cast, ask: Any) -> None:
    request = ask()
    notify(request)
    notify(request)
    assert len(mail.outbox) == 3


def test_who_left_is_not_written_to(cast: Cast, ask: Any) -> None:
    cast.raul.is_active = False
    cast.raul.save()
    with tenant_scope(cast.arena.pk):
        Membership.objects.filter(user=cast.ada).update(is_active=False)
    notify(ask())
    assert recipients() == {"rita@example.com"}


def test_nothing_is_sent_about_what_is_decided_or_a_fans(cast: Cast, ask: Any) -> None:
    notify(ask(gate="fan"))
    request = ask()
    with tenant_scope(cast.arena.pk):
        services.approve(request_id=request.pk, principal=cast.principal("rita"))
    notify(request)
    assert mail.outbox == []


def test_a_mail_server_that_is_away_is_tried_again(cast: Cast, ask: Any) -> None:
    request = ask()
    sends: list[str] = []
    real = EmailMessage.send

    def away_once(message: EmailMessage, *args: Any, **kwargs: Any) -> int:
        sends.append(message.to[0])
        if len(sends) == 1:
            raise ConnectionRefusedError
        return real(message, *args, **kwargs)

    with patch.object(EmailMessage, "send", away_once):
        tasks.notify.apply(
            kwargs={"tenant_id": str(request.tenant_id), "request_id": str(request.pk)}
        )
    assert recipients() == {"rita@example.com", "raul@example.com", "ada@example.com"}
    with tenant_scope(cast.arena.pk):
        assert ApprovalRequest.objects.get(pk=request.pk).notified_at is not None


@pytest.mark.django_db(transaction=True)
def test_the_commit_enqueues_it(cast: Cast, ask: Any) -> None:
    with patch.object(tasks.notify, "delay") as delay:
        request = ask()
        ask(gate="fan")
    delay.assert_called_once_with(tenant_id=str(cast.arena.pk), request_id=str(request.pk))


def test_a_lost_notice_is_found_by_the_sweep(
    cast: Cast, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, told = ask(), ask()
    notify(told)
    assert notices.overdue_notices() == []
    moment = timezone.now() + timedelta(minutes=3)
    monkeypatch.setattr(notices, "now", lambda: moment)
    with patch.object(tasks.notify, "delay") as delay:
        tasks.expire()
    delay.assert_called_once_with(tenant_id=str(cast.arena.pk), request_id=str(request.pk))

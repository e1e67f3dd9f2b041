"""A request commits with what waits for it, or not at all."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from approvals import services
from approvals.models import ApprovalRequest
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast


def test_it_waits_for_a_day_by_default(ask: Any) -> None:
    request = ask()
    assert request.state == "pending"
    wait = request.expires_at - timezone.now()
    assert timedelta(hours=23) < wait <= timedelta(hours=24)


def test_the_callers_names_become_columns(ask: Any) -> None:
    request = ask()
    assert str(request.run_ref) == request.reference["run"]
    assert str(request.conversation_ref) == request.reference["conversation"]
    assert request.requested_by_label == "ana"


@pytest.mark.django_db(transaction=True)
def test_it_is_refused_outside_a_transaction(cast: Cast) -> None:
    with (
        tenant_scope(cast.arena.pk),
        pytest.raises(transaction.TransactionManagementError),
    ):
        services.request_create(
            action="x",
            arguments={},
            gate="reviewer",
            requested_for_id=None,
            reason="",
            preview=None,
            binding_hash="b",
            reference={},
            risk="",
            rule="",
        )


@pytest.mark.django_db(transaction=True)
def test_the_signal_follows_the_commit_and_not_the_call(
    ask: Any, heard: SimpleNamespace, in_arena: None
) -> None:
    with transaction.atomic():
        request = ask()
        assert heard.requested == []
    assert heard.requested == [
        {
            "request_id": request.pk,
            "tenant_id": request.tenant_id,
            "state": "pending",
            "gate": "reviewer",
            "reference": request.reference,
        }
    ]


@pytest.mark.django_db(transaction=True)
def test_a_rollback_leaves_no_request_no_signal_no_record(
    ask: Any, heard: SimpleNamespace, in_arena: None
) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        ask()
        raise RuntimeError
    assert not ApprovalRequest.objects.exists()
    assert not AuditRecord.objects.exists()
    assert heard.requested == []


def test_a_confirmation_without_its_fan_is_refused(ask: Any) -> None:
    with pytest.raises(IntegrityError, match="approval_fan_gate_has_its_fan"):
        ask(gate="fan", requested_for_id=None)


def test_it_is_written_down(ask: Any, in_arena: None) -> None:
    request = ask()
    record = AuditRecord.objects.get()
    assert (record.action, record.actor) == ("approvals.request.created", "run:1")
    assert record.target == f"approval:{request.pk}"
    assert record.details["binding_hash"] == "b" * 64
    assert len(record.details["arguments_sha256"]) == 64

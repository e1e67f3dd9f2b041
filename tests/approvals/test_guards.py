"""What the database refuses, whoever asks."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import Error, connection, transaction
from django.utils import timezone

from approvals import services
from approvals.models import ApprovalRequest, Decision, State
from boxoffice.tenancy.models import User
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast


def run(sql: str, *params: Any) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.rowcount


def decide(request: ApprovalRequest, user: User | None, verb: str) -> Decision:
    with transaction.atomic():
        return Decision.objects.create(request=request, user=user, verb=verb)


def in_state(cast: Cast, ask: Any, state: str) -> ApprovalRequest:
    request: ApprovalRequest = ask()
    rita = cast.principal("rita")
    if state in {"approved", "executed", "failed", "unknown"}:
        services.approve(request_id=request.pk, principal=rita)
    if state in {"executed", "failed", "unknown"}:
        services.settle(request_id=request.pk, outcome=state, detail={})  # type: ignore[arg-type]
    if state == "denied":
        services.deny(request_id=request.pk, principal=rita, reason="because")
    if state == "withdrawn":
        services.withdraw(request_id=request.pk, principal=cast.principal("ana"))
    if state == "expired":
        run(
            "UPDATE approvals_approvalrequest SET expires_at = now() - interval '1 s' WHERE id=%s",
            request.pk,
        )
        ApprovalRequest.objects.get(pk=request.pk)
        services._expire(request.pk, request.tenant_id)
    return request


ALLOWED = {"approved": {"executed", "failed", "unknown"}}


@pytest.mark.parametrize("state", [value for value in State.values if value != "pending"])
def test_no_other_move_exists(cast: Cast, ask: Any, in_arena: None, state: str) -> None:
    request = in_state(cast, ask, state)
    request.refresh_from_db()
    assert request.state == state
    for target in set(State.values) - {state} - ALLOWED.get(state, set()):
        with pytest.raises(Error, match="cannot go from"):
            run("UPDATE approvals_approvalrequest SET state=%s WHERE id=%s", target, request.pk)
    request.refresh_from_db()
    assert request.state == state


@pytest.mark.parametrize("state", ["executed", "failed", "unknown"])
def test_a_pending_request_is_not_settled(ask: Any, in_arena: None, state: str) -> None:
    with pytest.raises(Error, match="cannot go from pending"):
        run("UPDATE approvals_approvalrequest SET state=%s WHERE id=%s", state, ask().pk)


@pytest.mark.parametrize("state", ["approved", "denied", "expired", "withdrawn"])
def test_no_move_without_its_decision(ask: Any, in_arena: None, state: str) -> None:
    with pytest.raises(Error, match=r"needs 1 decision"):
        run(
            "UPDATE approvals_approvalrequest SET state=%s, decided_at=now() WHERE id=%s",
            state,
            ask().pk,
        )


def test_one_yes_is_not_two(cast: Cast, ask: Any, in_arena: None) -> None:
    request = ask(quorum=2)
    decide(request, cast.rita, "approve")
    with pytest.raises(Error, match=r"needs 2 decision"):
        run(
            "UPDATE approvals_approvalrequest SET state='approved', decided_at=now() WHERE id=%s",
            request.pk,
        )
    with pytest.raises(Error, match="decision_approve_once"):
        decide(request, cast.rita, "approve")


def test_a_request_begins_pending(cast: Cast, in_arena: None) -> None:
    with pytest.raises(Error, match="cannot begin as approved"), transaction.atomic():
        ApprovalRequest.objects.create(
            action="x",
            arguments={},
            gate="reviewer",
            binding_hash="b",
            state="approved",
            decided_at=timezone.now(),
            expires_at=timezone.now() + timedelta(hours=1),
        )


def test_four_eyes_are_held_by_the_database(cast: Cast, ask: Any, in_arena: None) -> None:
    request = ask()
    for user in (cast.ana, cast.anita):
        with pytest.raises(Error, match="four eyes"):
            decide(request, user, "approve")
    assert decide(request, cast.rita, "approve").pk


def test_a_fans_gate_opens_for_the_fan_alone(cast: Cast, ask: Any, in_arena: None) -> None:
    request = ask(gate="fan")
    for verb in ("approve", "deny"):
        with pytest.raises(Error, match="only the fan"):
            decide(request, cast.rita, verb)
    assert decide(request, cast.ana, "approve").pk


def test_no_decision_on_a_decided_request(cast: Cast, ask: Any, in_arena: None) -> None:
    request = in_state(cast, ask, "denied")
    with pytest.raises(Error, match="not pending"):
        decide(request, cast.raul, "approve")


@pytest.mark.parametrize(
    "change",
    [
        "action='send_email'",
        "arguments='{}'",
        "gate='fan'",
        "quorum=2",
        "binding_hash='x'",
        "preview='{}'",
        "requested_for_id=NULL",
        "reference='{}'",
    ],
)
def test_what_is_described_never_changes(ask: Any, in_arena: None, change: str) -> None:
    with pytest.raises(Error, match="never changes"):
        run(f"UPDATE approvals_approvalrequest SET {change} WHERE id=%s", ask().pk)


def test_arguments_are_not_edited_after_the_decision(cast: Cast, ask: Any, in_arena: None) -> None:
    request = in_state(cast, ask, "approved")
    with pytest.raises(Error, match="only before the decision"):
        run("UPDATE approvals_approvalrequest SET edited_arguments='{}' WHERE id=%s", request.pk)


def test_nothing_is_removed_and_decisions_never_change(
    cast: Cast, ask: Any, in_arena: None
) -> None:
    request = in_state(cast, ask, "denied")
    with pytest.raises(Error, match="append-only"):
        run("UPDATE approvals_decision SET note='x' WHERE request_id=%s", request.pk)
    with pytest.raises(Error, match="append-only"):
        run("DELETE FROM approvals_decision WHERE request_id=%s", request.pk)
    with pytest.raises(Error, match="append-only"):
        run("DELETE FROM approvals_approvalrequest WHERE id=%s", request.pk)


def test_another_tenant_sees_and_changes_nothing(cast: Cast, ask: Any) -> None:
    request = ask()
    with tenant_scope(cast.teatro.pk):
        for table in ("approvals_approvalrequest", "approvals_decision"):
            assert run(f"SELECT * FROM {table}") == 0
        assert (
            run("UPDATE approvals_approvalrequest SET notified_at=now() WHERE id=%s", request.pk)
            == 0
        )
        with pytest.raises(Error):
            decide(request, cast.rui, "approve")
    with tenant_scope(cast.arena.pk):
        assert run("SELECT * FROM approvals_approvalrequest") == 1

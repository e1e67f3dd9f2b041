"""A request that nobody decides ends by itself, and counts as ended before the sweep comes."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.utils import timezone

from approvals import models, selectors, services, tasks
from approvals.exceptions import AlreadyDecided
from approvals.models import ApprovalRequest, Decision
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Move the clock of the approvals room."""

    def move(**delta: int) -> None:
        moment = timezone.now() + timedelta(**delta)
        for module in (models, selectors, services):
            monkeypatch.setattr(module, "now", lambda: moment)

    return move


@pytest.mark.django_db(transaction=True)
def test_the_sweep_ends_what_is_due_and_nothing_else(
    cast: Cast, ask: Any, later: Any, heard: SimpleNamespace
) -> None:
    soon, late = ask(seconds=60), ask(seconds=6000)
    decided = ask(seconds=60)
    with tenant_scope(cast.arena.pk):
        services.approve(request_id=decided.pk, principal=cast.principal("rita"))
    heard.decided.clear()
    later(seconds=61)
    assert services.expire_due() == 1
    assert services.expire_due() == 0
    with tenant_scope(cast.arena.pk):
        states = dict(ApprovalRequest.objects.values_list("pk", "state"))
        assert states == {soon.pk: "expired", late.pk: "pending", decided.pk: "approved"}
        decision = Decision.objects.get(request=soon)
        assert (decision.verb, decision.user) == ("expire", None)
        record = AuditRecord.objects.get(action="approvals.request.expired")
        assert record.actor == "system:clock"
    assert [(one["request_id"], one["state"]) for one in heard.decided] == [(soon.pk, "expired")]


def test_the_sweep_covers_every_tenant(cast: Cast, ask: Any, later: Any) -> None:
    ask(seconds=60)
    with tenant_scope(cast.teatro.pk):
        services.request_create(
            action="send_email",
            arguments={},
            gate="reviewer",
            requested_for_id=None,
            reason="",
            preview=None,
            binding_hash="b",
            reference={},
            risk="",
            rule="",
            seconds=60,
        )
    later(seconds=61)
    tasks.expire()
    for tenant in (cast.arena, cast.teatro):
        with tenant_scope(tenant.pk):
            assert ApprovalRequest.objects.get().state == "expired"


def test_before_the_sweep_it_counts_as_expired(
    cast: Cast, ask: Any, in_arena: None, later: Any
) -> None:
    request, rita = ask(seconds=60), cast.principal("rita")
    assert selectors.inbox_list(principal=rita, state="pending").count() == 1
    later(seconds=61)
    assert selectors.inbox_list(principal=rita, state="pending").count() == 0
    assert selectors.inbox_list(principal=rita, state="expired").get().effective_state == "expired"
    for act in (
        lambda: services.approve(request_id=request.pk, principal=rita),
        lambda: services.deny(request_id=request.pk, principal=rita, reason="because"),
        lambda: services.withdraw(request_id=request.pk, principal=cast.principal("ana")),
    ):
        with pytest.raises(AlreadyDecided) as caught:
            act()
        assert caught.value.extra["state"] == "expired"
        assert caught.value.extra["decided_by"] is None
        assert caught.value.extra["decided_at"] == request.expires_at

"""Many hands on one request: one wins, the rest are told who did."""

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection
from guardian.shortcuts import assign_perm

from approvals import services
from approvals.exceptions import AlreadyDecided
from approvals.models import ApprovalRequest, Decision
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.models import Membership, Tier, User
from boxoffice.tenancy.principals import Principal, principal_for
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)
THREADS = 20


def together(cast: Cast, acts: list[Callable[[], Any]]) -> list[Any]:
    """Run all at once, each on its own connection; an error is an answer too."""
    barrier = threading.Barrier(len(acts))

    def one(act: Callable[[], Any]) -> Any:
        try:
            barrier.wait(30)
            if act is services.expire_due:  # opens every tenant's scope itself
                return act()
            with tenant_scope(cast.arena.pk):
                return act()
        except AlreadyDecided as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(acts)) as pool:
        return list(pool.map(one, acts))


@pytest.fixture
def reviewers(cast: Cast) -> list[Principal]:
    found = []
    with tenant_scope(cast.arena.pk):
        tier = Tier.objects.get(slug="pro")
        for number in range(THREADS):
            user = User.objects.create_user(f"reviewer{number}", f"r{number}@example.com")
            Membership.objects.create(user=user, tier=tier, role="reviewer")
            assign_perm("review_actions", user, cast.arena)
            found.append(principal_for(tenant=cast.arena, user=user))
    return found


def test_twenty_reviewers_one_decision(
    cast: Cast, ask: Any, reviewers: list[Principal], heard: SimpleNamespace
) -> None:
    request = ask()

    def act(number: int) -> Callable[[], ApprovalRequest]:
        principal = reviewers[number]
        if number % 2:
            return lambda: services.deny(
                request_id=request.pk, principal=principal, reason="because"
            )
        return lambda: services.approve(request_id=request.pk, principal=principal)

    answers = together(cast, [act(number) for number in range(THREADS)])
    losers = [answer for answer in answers if isinstance(answer, AlreadyDecided)]
    assert len(losers) == THREADS - 1
    with tenant_scope(cast.arena.pk):
        decision = Decision.objects.select_related("user").get()
        request.refresh_from_db()
        assert request.state == {"approve": "approved", "deny": "denied"}[decision.verb]
        assert AuditRecord.objects.exclude(action="approvals.request.created").count() == 1
    assert decision.user is not None
    assert {loser.extra["decided_by"] for loser in losers} == {decision.user.username}
    assert {loser.extra["decided_at"] for loser in losers} == {decision.created_at}
    assert {loser.status for loser in losers} == {409}
    assert [one["state"] for one in heard.decided] == [request.state]


def test_a_quorum_is_counted_once_each(
    cast: Cast, ask: Any, reviewers: list[Principal], heard: SimpleNamespace
) -> None:
    request = ask(quorum=3)
    answers = together(
        cast,
        [
            lambda principal=principal: services.approve(  # type: ignore[misc]
                request_id=request.pk, principal=principal
            )
            for principal in reviewers[:10] * 2
        ],
    )
    states = Counter(answer.state for answer in answers if isinstance(answer, ApprovalRequest))
    assert states == {"pending": 2, "approved": 1}
    with tenant_scope(cast.arena.pk):
        assert Decision.objects.values("user").distinct().count() == Decision.objects.count() == 3
    assert [one["state"] for one in heard.decided] == ["approved"]


def test_the_fan_the_reviewer_and_the_clock(
    cast: Cast, ask: Any, heard: SimpleNamespace, reviewers: list[Principal]
) -> None:
    requests = [ask(seconds=0) for _ in range(5)] + [ask() for _ in range(5)]
    ana = cast.principal("ana")
    acts: list[Callable[[], Any]] = [services.expire_due, services.expire_due]
    for request in requests:
        acts.append(lambda pk=request.pk: services.withdraw(request_id=pk, principal=ana))  # type: ignore[misc]
        acts.append(lambda pk=request.pk: services.approve(request_id=pk, principal=reviewers[0]))  # type: ignore[misc]
    answers = together(cast, acts)
    assert len(answers) == len(acts)
    services.expire_due()
    with tenant_scope(cast.arena.pk):
        for request in requests:
            assert Decision.objects.filter(request=request).count() == 1
        assert set(
            ApprovalRequest.objects.filter(pk__in=[r.pk for r in requests[:5]]).values_list(
                "state", flat=True
            )
        ) == {"expired"}
    assert len(heard.decided) == 10
    assert len({one["request_id"] for one in heard.decided}) == 10

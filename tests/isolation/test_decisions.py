"""Who may decide what waits: staff of the tenant, never of another; a fan only for herself."""

import pytest
from django.db import transaction
from django.test import Client

from approvals import services as approvals
from approvals.models import ApprovalRequest, Decision
from boxoffice.common.exceptions import NotFound
from boxoffice.tenancy.principals import principal_for
from boxoffice.ticketing.models import Order, Refund
from tests.isolation.conftest import Life, by_session, by_token

VERBS = {"approve": {}, "deny": {"reason": "não"}, "withdraw": {}}


def decisions(life: Life) -> tuple[list[str], int, int, int]:
    """The states of all requests, and how much was decided, refunded and bought."""
    with life.cast.scope():
        return (
            sorted(ApprovalRequest.objects.values_list("state", flat=True)),
            Decision.objects.count(),
            Refund.objects.count(),
            Order.objects.count(),
        )


def tries(client: Client, slug: str, request_id: object) -> dict[str, int]:
    """Every way to decide a request over REST; the status of each."""
    return {
        verb: client.post(
            f"/t/{slug}/api/v1/approvals/{request_id}/{verb}/",
            body,
            content_type="application/json",
        ).status_code
        for verb, body in VERBS.items()
    }


@pytest.mark.parametrize("slug", ["arena", "teatro"])
def test_staff_of_one_tenant_decide_nothing_of_another(
    arena: Life, teatro: Life, slug: str
) -> None:
    before = decisions(arena)
    for way in (by_session, by_token):
        rui = way(teatro.cast, "rui")
        for request_id in (arena.ids["request_id"], arena.confirmation):
            assert set(tries(rui, slug, request_id).values()) == {404}
            for verb in ("approve", "deny"):
                page = rui.post(f"/t/{slug}/approvals/{request_id}/{verb}/", {"reason": "não"})
                assert page.status_code == 404
    assert decisions(arena) == before


def test_in_their_own_scope_the_services_find_nothing(arena: Life, teatro: Life) -> None:
    before = decisions(arena)
    rui = principal_for(tenant=teatro.cast.tenant, user=teatro.cast.user("rui"))
    for request_id in (arena.ids["request_id"], arena.confirmation):
        with teatro.cast.scope():
            for decide in (approvals.approve, approvals.withdraw):
                with pytest.raises(NotFound):
                    decide(request_id=request_id, principal=rui)
            with pytest.raises(NotFound):
                approvals.deny(request_id=request_id, principal=rui, reason="não")
    assert decisions(arena) == before


def test_a_reviewer_of_one_tenant_is_nobody_in_another(arena: Life, teatro: Life) -> None:
    with pytest.raises(NotFound):
        principal_for(tenant=arena.cast.tenant, user=teatro.cast.user("rui"))


@pytest.mark.parametrize("name", ["fabio", None])
def test_another_fan_and_a_visitor_decide_nothing(arena: Life, name: str | None) -> None:
    before = decisions(arena)
    client = by_token(arena.cast, name) if name else Client(raise_request_exception=False)
    for request_id in (arena.ids["request_id"], arena.confirmation):
        assert set(tries(client, "arena", request_id).values()) <= {401, 404}
    assert decisions(arena) == before


def test_who_asked_does_not_approve(arena: Life) -> None:
    before = decisions(arena)
    ana = by_token(arena.cast, "ana")
    path = f"/t/arena/api/v1/approvals/{arena.ids['request_id']}"
    refused = ana.post(f"{path}/approve/", {}, content_type="application/json")
    assert refused.status_code == 403
    assert decisions(arena) == before


def test_a_reviewer_does_not_confirm_in_the_fans_place(arena: Life) -> None:
    before = decisions(arena)
    rita = by_token(arena.cast, "rita")
    assert set(tries(rita, "arena", arena.confirmation).values()) == {404}
    assert decisions(arena) == before


def test_those_who_may_decide_do(arena: Life, teatro: Life) -> None:
    """The control, taken back at the end: it decides what the others left alone."""
    other = decisions(teatro)
    rita, ana = by_token(arena.cast, "rita"), by_token(arena.cast, "ana")
    with transaction.atomic():
        for client, request_id in ((rita, arena.ids["request_id"]), (ana, arena.confirmation)):
            codes = tries(client, "arena", request_id)
            assert codes["approve"] == 200
            assert codes["deny"] == 409
        with arena.cast.scope():
            assert not ApprovalRequest.objects.filter(state="pending").exists()
        transaction.set_rollback(True)
    assert decisions(teatro) == other

"""A token opens one tenant for one member, while it lives: at every door, and at every socket."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from boxoffice.common.clock import now
from boxoffice.tenancy.models import ApiToken, Membership, User
from boxoffice.tenancy.principals import token_create
from tests.isolation.conftest import Life, by_session
from tests.isolation.test_addresses import ROUTES, SOCKETS, filled, is_heard, knock

NOT_KNOWN, NOT_THERE = 401, 404

type Change = Callable[[Life, ApiToken], None]


def expired(life: Life, token: ApiToken) -> None:
    with life.cast.scope():
        ApiToken.objects.filter(pk=token.pk).update(expires_at=now() - timedelta(seconds=1))


def revoked(life: Life, token: ApiToken) -> None:
    with life.cast.scope():
        ApiToken.objects.filter(pk=token.pk).update(revoked_at=now())


def of_a_disabled_user(life: Life, token: ApiToken) -> None:
    User.objects.filter(pk=token.user_id).update(is_active=False)


def removed(life: Life, token: ApiToken) -> None:
    with life.cast.scope():
        ApiToken.objects.filter(pk=token.pk).delete()


@pytest.fixture
def token(arena: Life) -> Iterator[Any]:
    """A token of rosa's, who reviews; all is as before afterwards."""
    user = arena.cast.user("rosa")
    plain = token_create(tenant=arena.cast.tenant, user=user, name="test")
    with arena.cast.scope():
        row = ApiToken.objects.get(name="test")
    yield plain, row
    User.objects.filter(pk=user.pk).update(is_active=True)
    with arena.cast.scope():
        ApiToken.objects.filter(name="test").delete()
        Membership.objects.filter(user=user).update(is_active=True)


def with_token(plain: str) -> Client:
    """A program that sends a token."""
    headers = {"Authorization": f"Bearer {plain}"}
    return Client(raise_request_exception=False, headers=headers)


def codes(client: Client, life: Life) -> set[int]:
    """What every address answers."""
    return {
        knock(client, method, life.slug, route, life.ids).status_code
        for route in ROUTES
        for method in ("GET", "POST")
    }


def test_a_good_token_opens_what_its_member_may_see(arena: Life, token: Any) -> None:
    plain, _ = token
    assert with_token(plain).get("/t/arena/api/v1/approvals/").status_code == 200


@pytest.mark.parametrize("change", [expired, revoked, of_a_disabled_user, removed])
def test_a_token_that_is_over_opens_no_door(arena: Life, token: Any, change: Change) -> None:
    plain, row = token
    change(arena, row)
    assert codes(with_token(plain), arena) == {NOT_KNOWN}


@pytest.mark.parametrize("change", [expired, revoked, of_a_disabled_user, removed])
async def test_a_token_that_is_over_opens_no_socket(
    arena: Life, token: Any, change: Change
) -> None:
    plain, row = token
    header = (b"authorization", f"Bearer {plain}".encode())
    paths = [f"/t/arena/{filled(route, arena.ids)}" for route in SOCKETS]
    assert [await is_heard(path, header) for path in paths] == [True, True]
    await sync_to_async(change)(arena, row)
    assert [await is_heard(path, header) for path in paths] == [False, False]


@pytest.mark.parametrize(
    "plain", ["", " ", "x", "bo_", "bo_" + "A" * 43, "Bearer", "null", "é", "bo_\x00", "a" * 9_000]
)
def test_what_is_no_token_opens_no_door(arena: Life, plain: str) -> None:
    assert codes(with_token(plain), arena) == {NOT_KNOWN}


def test_a_digest_is_no_token(arena: Life, token: Any) -> None:
    """Who reads the table can do nothing with what stands there."""
    _, row = token
    assert codes(with_token(row.digest), arena) == {NOT_KNOWN}


def test_a_token_of_another_tenant_opens_no_door(arena: Life, teatro: Life, token: Any) -> None:
    plain, _ = token
    assert codes(with_token(plain), teatro) == {NOT_THERE}


def test_a_token_counts_for_more_than_a_session(arena: Life, teatro: Life) -> None:
    """A bad or foreign token is not made good by the session of somebody who may."""
    for plain, code in (("nonsense", NOT_KNOWN), (teatro.cast.token("teo"), NOT_THERE)):
        client = by_session(arena.cast, "ana")
        path = f"/t/arena/api/v1/runs/{arena.ids['run_id']}/"
        assert client.get(path).status_code == 200
        refused = client.get(path, headers={"Authorization": f"Bearer {plain}"})
        assert refused.status_code == code


def test_a_member_whose_place_has_ended_is_let_in_no_more(arena: Life, token: Any) -> None:
    plain, row = token
    with arena.cast.scope():
        Membership.objects.filter(user=row.user_id).update(is_active=False)
    assert codes(with_token(plain), arena) == {NOT_THERE}
    assert codes(by_session(arena.cast, "rosa"), arena) == {NOT_THERE}

"""Every address of a tenant, asked for by people of another: nothing is there."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from boxoffice.config import tenant_urls
from boxoffice.config.asgi import agent_sockets, application, approval_sockets
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import operator_scope
from tests.architecture.doors import BODIES, FORMS
from tests.isolation.conftest import Life, by_session, by_token
from tests.isolation.test_tables import MODELS

METHODS = ("GET", "OPTIONS", "POST", "DELETE")
NOT_THERE = 404


def addresses(
    patterns: list[URLPattern | URLResolver], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Every route of a tenant with its view."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, route)
        else:
            yield route, pattern.callback


ROUTES = [route for route, _ in addresses(get_resolver(tenant_urls.__name__).url_patterns)]
SOCKETS = [str(one.pattern) for one in (*agent_sockets, *approval_sockets)]


def filled(route: str, ids: dict[str, UUID]) -> str:
    """The route with ids in its places."""
    if route.startswith("^"):
        return "api/nothing/"
    return re.sub(r"<\w+:(\w+)>", lambda match: str(ids[match[1]]), route)


def knock(client: Client, method: str, slug: str, route: str, ids: dict[str, UUID]) -> Any:
    """Ask for an address with the body that it takes."""
    path = filled(route, ids)
    if path.startswith("api/"):
        body, kind = json.dumps(BODIES.get(route, {})), "application/json"
    else:
        body, kind = urlencode(FORMS.get(route, {})), "application/x-www-form-urlencoded"
    return client.generic(method, f"/t/{slug}/{path}", body, content_type=kind)


def everything() -> dict[str, int]:
    """How many rows there are, by table."""
    with operator_scope("test"):
        return {model._meta.db_table: model._default_manager.count() for model in MODELS}  # type: ignore[attr-defined]


def states(life: Life) -> list[tuple[Any, ...]]:
    """What is ana's and could have been decided, stopped or ended."""
    with operator_scope("test"):
        return [
            row
            for model in MODELS
            for name in ("state", "status")
            if any(field.name == name for field in model._meta.concrete_fields)
            for row in model._default_manager.filter(tenant=life.cast.tenant)  # type: ignore[attr-defined]
            .order_by("pk")
            .values_list("pk", name)
        ]


def test_the_walk_goes_somewhere() -> None:
    assert len(ROUTES) > 20
    assert len(SOCKETS) == 2


@pytest.mark.parametrize("way", [by_session, by_token])
def test_nothing_of_another_tenant_is_there(arena: Life, teatro: Life, way: Any) -> None:
    """teo and rui, by session and by token, at every address of arena, with every method."""
    clients = {name: way(teatro.cast, name) for name in (teatro.fan, teatro.reviewer)}
    before = everything(), states(arena)
    found = []
    for name, client in clients.items():
        for route in ROUTES:
            for method in METHODS:
                reply = knock(client, method, "arena", route, arena.ids)
                if reply.status_code != NOT_THERE:
                    found.append(f"{name} {method} {route}: {reply.status_code}")
                assert "ana" not in re.findall(r"\w+", reply.content.decode())
    assert found == []
    assert (everything(), states(arena)) == before


@pytest.mark.parametrize("way", [by_session, by_token])
def test_ids_of_another_tenant_are_unknown_at_home(arena: Life, teatro: Life, way: Any) -> None:
    """teo and rui in their own tenant, with the ids of what is arena's."""
    clients = {name: way(teatro.cast, name) for name in (teatro.fan, teatro.reviewer)}
    before = everything(), states(arena)
    found = []
    for name, client in clients.items():
        for route in (one for one in ROUTES if "<" in one and not one.startswith("^")):
            if re.findall(r"<\w+:(\w+)>", route)[0] not in arena.ids:
                continue
            for method in ("GET", "POST"):
                reply = knock(client, method, "teatro", route, arena.ids)
                # 405: no such method here, whoever's it is; 403: not a reviewer, whatever it is.
                allowed = {NOT_THERE, 405} | ({403} if name == teatro.fan else set())
                if reply.status_code not in allowed:
                    found.append(f"{name} {method} {route}: {reply.status_code}")
    assert found == []
    assert (everything(), states(arena)) == before


@pytest.mark.parametrize("way", [by_session, by_token])
def test_the_same_addresses_are_there_for_those_whose_they_are(arena: Life, way: Any) -> None:
    """The control: each address that is read answers ana, rita or ada with what is there."""
    clients = [way(arena.cast, name) for name in (arena.fan, arena.reviewer, "ada")]
    for route in (one for one in ROUTES if not one.startswith("^")):
        replies = [knock(one, "GET", "arena", route, arena.ids) for one in clients]
        codes = {reply.status_code for reply in replies}
        # 409: it is there, and cannot be done while the run waits.
        assert codes & {200, 302, 405, 409}, f"{route}: {codes}"


@pytest.mark.parametrize("way", [by_session, by_token])
def test_another_fans_things_are_unknown(arena: Life, way: Any) -> None:
    """fabio, and a visitor, with the ids of what is ana's."""
    clients = way(arena.cast, "fabio"), Client(raise_request_exception=False)
    before = everything(), states(arena)
    found = []
    for client in clients:
        for route in (one for one in ROUTES if "<" in one and "event_id" not in one):
            for method in ("GET", "POST"):
                reply = knock(client, method, "arena", route, arena.ids)
                is_public = reply.status_code in {NOT_THERE, 405, 401, 403}
                is_sign_in = reply.status_code == 302 and "/login/" in reply["Location"]
                if not (is_public or is_sign_in):
                    found.append(f"{method} {route}: {reply.status_code}")
    assert found == []
    assert (everything(), states(arena)) == before


@pytest.fixture
def hosts(arena: Life, teatro: Life, settings: Any) -> Iterator[None]:
    """Both box offices have a host of their own besides their path."""
    settings.ALLOWED_HOSTS = ["testserver", "arena.example.com", "teatro.example.com"]
    for life in (arena, teatro):
        Tenant.objects.filter(pk=life.cast.tenant.pk).update(host=f"{life.slug}.example.com")
    yield
    Tenant.objects.update(host=None)


@pytest.mark.parametrize("way", [by_session, by_token])
def test_a_host_is_as_closed_as_a_path(arena: Life, teatro: Life, hosts: None, way: Any) -> None:
    teo, ana = way(teatro.cast, "teo"), way(arena.cast, "ana")
    own = {"headers": {"Host": "arena.example.com"}}
    for route in (one for one in ROUTES if not one.startswith("^")):
        path = f"/{filled(route, arena.ids)}"
        assert teo.get(path, **own).status_code == NOT_THERE, route
    assert ana.get(f"/api/v1/runs/{arena.ids['run_id']}/", **own).status_code == 200
    # The path decides where both speak, and a member of neither is nobody there.
    elsewhere = {"headers": {"Host": "teatro.example.com"}}
    run = f"/t/arena/api/v1/runs/{arena.ids['run_id']}/"
    assert teo.get(run, **elsewhere).status_code == NOT_THERE
    assert ana.get(run, **elsewhere).status_code == 200


@pytest.mark.parametrize(
    "header", ["X-Forwarded-Host", "X-Tenant", "X-Tenant-Id", "X-Original-Url", "X-Script-Name"]
)
def test_no_header_chooses_a_tenant(arena: Life, teatro: Life, hosts: None, header: str) -> None:
    teo = by_token(teatro.cast, "teo")
    ids = str(arena.cast.tenant.pk)
    for value in ("arena", "arena.example.com", ids, "/t/arena/"):
        listed = teo.get("/t/teatro/api/v1/orders/", headers={header: value})
        assert listed.status_code == 200
        orders = {row["id"] for row in listed.json()["results"]}
        assert str(teatro.ids["order_id"]) in orders
        assert str(arena.ids["order_id"]) not in orders
        run = teo.get(f"/t/teatro/api/v1/runs/{arena.ids['run_id']}/", headers={header: value})
        assert run.status_code == NOT_THERE


def test_no_field_chooses_a_tenant(arena: Life, teatro: Life) -> None:
    teo = by_token(teatro.cast, "teo")
    for name in ("tenant", "tenant_id", "slug"):
        for value in ("arena", str(arena.cast.tenant.pk)):
            refused = teo.post(
                "/t/teatro/api/v1/conversations/", {name: value}, content_type="application/json"
            )
            assert refused.status_code == 422
            listed = teo.get(f"/t/teatro/api/v1/conversations/?{name}={value}").json()["results"]
            assert str(arena.ids["conversation_id"]) not in {row["id"] for row in listed}
            assert listed


@pytest.mark.parametrize("route", SOCKETS)
async def test_sockets_of_another_tenant_are_refused(arena: Life, teatro: Life, route: str) -> None:
    path = f"/t/arena/{filled(route, arena.ids)}"
    own = f"/t/teatro/{filled(route, teatro.ids)}"
    for name in (teatro.fan, teatro.reviewer):
        token = await sync_to_async(teatro.cast.token)(name)
        session = await sync_to_async(by_session)(teatro.cast, name)
        cookies = "; ".join(f"{key}={one.value}" for key, one in session.cookies.items())
        for header in (
            (b"authorization", f"Bearer {token}".encode()),
            (b"cookie", cookies.encode()),
        ):
            assert not await is_heard(path, header)
            if "conversation_id" in route:
                assert not await is_heard(f"/t/teatro/{filled(route, arena.ids)}", header)
            # rui reviews at home, and reads what fans write there.
            if name == teatro.reviewer:
                assert await is_heard(own, header)


async def is_heard(path: str, header: tuple[bytes, bytes]) -> bool:
    """Whether a socket opens, and answers."""
    headers = [(b"origin", b"http://localhost"), (b"host", b"localhost"), header]
    scope = {"type": "websocket", "path": path, "headers": headers, "query_string": b""}
    socket = ApplicationCommunicator(application, scope | {"subprotocols": []})
    await socket.send_input({"type": "websocket.connect"})
    if (await socket.receive_output(10))["type"] == "websocket.close":
        return False
    await socket.send_input({"type": "websocket.receive", "text": "?"})
    answer = await socket.receive_output(10)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(10)
    return bool(answer["type"] == "websocket.send")

"""Every address of a tenant, by everybody: the table is complete, and it is true."""

import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.db import transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from agents.models import Replay
from approvals.services import request_create
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.config import tenant_urls
from boxoffice.config.asgi import agent_sockets, application, approval_sockets
from boxoffice.config.celery import app as celery
from tests.architecture.doors import BODIES, DOORS, FORMS, SOCKETS, TASKS, Key
from tests.support.cast import Cast, make_cast
from tools.models import CALL_MACHINE, UNDO_MACHINE, RemoteEffect, ToolCall, Undo

COLUMNS = ("ana", "fabio", "rita", "teo", None)
API_METHODS = ("get", "post", "put", "patch", "delete")


def addresses(
    patterns: list[URLPattern | URLResolver], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern.url_patterns, route)
        else:
            yield route, pattern.callback


ADDRESSES = dict(addresses(get_resolver(tenant_urls.__name__).url_patterns))


def test_every_address_of_a_tenant_is_in_the_table() -> None:
    assert {route for _, route, _ in DOORS} == set(ADDRESSES)


def test_every_method_of_the_api_is_in_the_table() -> None:
    for route, view in ADDRESSES.items():
        kind = getattr(view, "view_class", None)
        if kind is not None:
            methods = {name.upper() for name in API_METHODS if hasattr(kind, name)}
            assert {method for method, listed, _ in DOORS if listed == route} == methods, route


@pytest.fixture
def arena(db: None) -> Cast:
    return make_cast("arena")


@pytest.fixture
def teatro(arena: Cast) -> Cast:
    return make_cast("teatro")


def objects(arena: Cast) -> dict[str, dict[str, UUID]]:
    """What is ana's, by the names of the addresses' parts."""
    run = arena.post("ana", "oi")
    ids = {"conversation_id": run.conversation_id, "run_id": run.pk}
    ids["event_id"] = arena.seats.event.pk
    with arena.scope():
        replay = Replay.objects.create(run=run, from_step=1, asked_by=arena.user("ada"))
    ids["replay_id"] = replay.pk
    ids["call_id"], ids["undo_id"] = waiting_for_a_person(arena)
    made = {"": ids, "confirmation": dict(ids)}
    for name, gate in (("", "reviewer"), ("confirmation", "fan")):
        with arena.scope(), transaction.atomic():
            made[name]["request_id"] = request_create(
                action="place_order",
                arguments={"hold_id": "h"},
                gate=gate,
                requested_for_id=arena.user("ana").pk,
                reason="",
                preview=None,
                binding_hash="0" * 64,
                reference={"run": str(run.pk), "conversation": str(run.conversation_id)},
                risk="destructive",
                rule="tool",
            ).pk
    return made


def waiting_for_a_person(arena: Cast) -> tuple[UUID, UUID]:
    """A call of ana's whose outcome is unknown, and an effect that could not be taken back."""
    with arena.scope():
        calls = [
            ToolCall.objects.create(
                call_id="c",
                origin="run",
                user=arena.user("ana"),
                tool=tool,
                arguments={},
                args_hash="0" * 64,
                idempotency_key=str(uuid4()),
            )
            for tool in ("place_order", "hold_seats")
        ]
        for state in ("running", "unknown"):
            transition(ToolCall.objects.filter(pk=calls[0].pk), CALL_MACHINE, state)
        RemoteEffect.objects.create(
            call=calls[0], provider="demo", request={}, sent_at=now(), unknown_at=now()
        )
        undo = Undo.objects.create(
            call=calls[1], run_ref=uuid4(), reason="failed", next_attempt_at=now()
        )
        transition(Undo.objects.all(), UNDO_MACHINE, "stuck")
    return calls[0].pk, undo.pk


def knock(client: Client, key: Key, ids: dict[str, UUID]) -> int:
    method, route, _ = key
    path = re.sub(r"<\w+:(\w+)>", lambda match: str(ids[match[1]]), route)
    if route.startswith("^api"):
        path = "api/nothing/"
    options: dict[str, Any] = {}
    if method == "POST" and route in FORMS:
        options = {"data": FORMS[route]}
    elif method == "POST" and path.startswith("api/"):
        options = {"data": BODIES.get(route, {}), "content_type": "application/json"}
    return getattr(client, method.lower())(f"/t/arena/{path}", **options).status_code


def test_everybody_gets_what_the_table_says(arena: Cast, teatro: Cast) -> None:
    made = objects(arena)
    users = {name: (teatro if name == "teo" else arena).user(name) for name in COLUMNS if name}
    wrong = []
    for column, name in enumerate(COLUMNS):
        client = Client()
        if name is not None:
            client.force_login(users[name])
        for key, row in DOORS.items():
            with transaction.atomic():  # every door is tried on the same house
                status = knock(client, key, made[key[2]])
                transaction.set_rollback(True)
            if status != row[column]:
                wrong.append(f"{name} {' '.join(key)}: {status}, not {row[column]}")
    assert wrong == []


def test_every_task_says_who_sets_it_off() -> None:
    celery.loader.import_default_modules()
    assert {name for name in celery.tasks if not name.startswith("celery.")} == set(TASKS)


def test_every_scheduled_task_exists(settings: Any) -> None:
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert scheduled == {name for name, who in TASKS.items() if who == "the clock"}


def test_every_socket_is_in_the_table() -> None:
    assert {str(one.pattern) for one in (*agent_sockets, *approval_sockets)} == set(SOCKETS)


@pytest.mark.parametrize("route", SOCKETS)
async def test_sockets_stay_open_for_whom_the_table_says(
    transactional_db: None, route: str
) -> None:
    cast = await sync_to_async(make_cast)("arena")
    other = await sync_to_async(make_cast)("teatro")
    ids = (await sync_to_async(objects)(cast))[""]
    path = "/t/arena/" + re.sub(r"<\w+:(\w+)>", lambda match: str(ids[match[1]]), route)
    stays = []
    for name in COLUMNS:
        headers = [(b"origin", b"http://localhost"), (b"host", b"localhost")]
        if name is not None:
            token = await sync_to_async((other if name == "teo" else cast).token)(name)
            headers.append((b"authorization", f"Bearer {token}".encode()))
        stays.append(await stays_open(path, headers))
    assert tuple(stays) == SOCKETS[route]


async def stays_open(path: str, headers: list[tuple[bytes, bytes]]) -> bool:
    scope = {"type": "websocket", "path": path, "headers": headers, "query_string": b""}
    socket = ApplicationCommunicator(application, scope | {"subprotocols": []})
    await socket.send_input({"type": "websocket.connect"})
    if (await socket.receive_output(10))["type"] == "websocket.close":
        return False
    # Whoever may stay is told something: that the socket is ready, or that this is no frame.
    await socket.send_input({"type": "websocket.receive", "text": "?"})
    answer = await socket.receive_output(10)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(10)
    return bool(answer["type"] == "websocket.send")

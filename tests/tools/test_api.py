"""Unknown outcomes, and what could not be taken back, over REST."""

import threading
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections
from django.test import Client
from guardian.shortcuts import assign_perm

from boxoffice.acquirer.server import Trouble
from boxoffice.audit.models import AuditRecord
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.ticketing.models import Order
from tests.support.acquirer import Acquirer
from tests.support.cast import Cast
from tools.models import CALL_MACHINE, UNDO_MACHINE, ToolCall, Undo

CALLS, UNDOS = "/api/v1/unknown-calls/", "/api/v1/undos/"
DONE = {"outcome": "done", "note": "no extrato"}
NOT_DONE = {"outcome": "not_done", "note": "nada no extrato"}


class Door:
    """Somebody's way to the API of their box office."""

    def __init__(self, cast: Cast, name: str | None) -> None:
        headers = {"Authorization": f"Bearer {cast.token(name)}"} if name else {}
        self.client, self.root = Client(headers=headers), f"/t/{cast.tenant.slug}"

    def get(self, path: str) -> Any:
        """The reply."""
        return self.client.get(self.root + path)

    def post(self, path: str, body: Any = None, key: str | None = None) -> Any:
        """The reply."""
        headers = {"Idempotency-Key": key} if key else {}
        return self.client.post(
            self.root + path, body or {}, content_type="application/json", headers=headers
        )


@pytest.fixture
def ada(arena: Cast) -> Door:
    """The tenant's admin."""
    return Door(arena, "ada")


@pytest.fixture
def stuck(arena: Cast) -> Undo:
    """One that the machine gave up."""
    with arena.scope():
        call = ToolCall.objects.create(
            call_id="c",
            origin="run",
            run_ref=uuid4(),
            user=arena.user("ana"),
            tool="hold_seats",
            arguments={"seat_ids": []},
            args_hash="0" * 64,
            idempotency_key=str(uuid4()),
        )
        transition(
            ToolCall.objects.filter(pk=call.pk), CALL_MACHINE, "succeeded", result={"hold_id": "h"}
        )
        undo = Undo.objects.create(
            call=call, run_ref=uuid4(), reason="failed", next_attempt_at=now()
        )
        error = {"code": "tool_failed", "message": "Não funcionou."}
        transition(Undo.objects.all(), UNDO_MACHINE, "stuck", attempts=5, error=error)
    return undo


def state(cast: Cast, call: ToolCall) -> tuple[str, str]:
    """Of the call and of its order."""
    with cast.scope():
        return ToolCall.objects.get(pk=call.pk).state, Order.objects.get().status


def test_the_list_says_all_that_is_needed_to_decide(ada: Door, lost: ToolCall) -> None:
    (row,) = ada.get(CALLS).json()["results"]
    assert row == ada.get(f"{CALLS}{lost.pk}/").json()
    assert row["id"] == str(lost.pk)
    assert (row["tool"], row["arguments"]) == ("place_order", lost.arguments)
    assert (row["asked_for"], row["state"]) == ("ana", "unknown")
    assert (row["provider"], row["key"]) == ("127.0.0.1", lost.idempotency_key)
    assert row["request"]["amount_minor"] > 0
    assert row["sent_at"] <= row["last_heard_at"] <= row["unknown_since"] < row["looked_up_at"]
    assert row["last_heard"]["found"] == "lost"
    assert "the provider said 500" in row["last_heard"]["why"]
    assert row["conversation"] == str(lost.conversation_ref)
    assert (row["settled_by"], row["settled_at"], row["note"]) == ("", None, "")


@pytest.mark.parametrize(
    ("body", "ends"), [(DONE, ("succeeded", "paid")), (NOT_DONE, ("failed", "cancelled"))]
)
def test_it_is_settled_once_with_a_note(
    arena: Cast, ada: Door, lost: ToolCall, body: dict[str, str], ends: tuple[str, str]
) -> None:
    path = f"{CALLS}{lost.pk}/settle/"
    reply = ada.post(path, body, key="k")
    assert reply.status_code == 200
    assert (reply.json()["state"], reply.json()["note"]) == (ends[0], body["note"])
    assert reply.json()["settled_by"] == f"user:{arena.user('ada').pk}"
    assert state(arena, lost) == ends
    again = ada.post(path, body, key="k")
    assert (again.json(), again["Idempotent-Replay"]) == (reply.json(), "true")
    late = ada.post(path, NOT_DONE if body is DONE else DONE)
    assert (late.status_code, late.json()["code"]) == (409, "already_settled")
    assert late.json()["detail"].startswith("O que foi feito disto já se sabe")
    assert state(arena, lost) == ends
    assert ada.get(CALLS).json()["results"] == []
    assert ada.get(f"{CALLS}{lost.pk}/").json() == reply.json()
    with arena.scope():
        (record,) = AuditRecord.objects.filter(action="tools.call.settled")
        assert record.details["note"] == body["note"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"outcome": "done"},
        {"outcome": "perhaps", "note": "no extrato"},
        {"outcome": "done", "note": " . "},
        {"outcome": "done", "note": "x" * 2001},
        {"outcome": "done", "note": 12345},
        {**DONE, "amount": 1},
    ],
)
def test_what_is_not_said_clearly_is_refused(
    arena: Cast, ada: Door, lost: ToolCall, body: dict[str, Any]
) -> None:
    assert ada.post(f"{CALLS}{lost.pk}/settle/", body).status_code == 422
    assert state(arena, lost) == ("unknown", "pending")


def test_nobody_settles_what_was_asked_for_in_their_own_name(
    arena: Cast, ada: Door, lost: ToolCall
) -> None:
    with arena.scope():
        ToolCall.objects.filter(pk=lost.pk).update(user=arena.user("ada"))
    for path, body in (("settle/", DONE), ("look-up/", {})):
        reply = ada.post(f"{CALLS}{lost.pk}/{path}", body)
        assert (reply.status_code, reply.json()["code"]) == (403, "forbidden")
    assert state(arena, lost) == ("unknown", "pending")


def test_looking_it_up_asks_once_for_each_key(
    arena: Cast, ada: Door, lost: ToolCall, acquirer: Acquirer
) -> None:
    path = f"{CALLS}{lost.pk}/look-up/"
    acquirer.always(Trouble.ERROR, on="lookup")
    acquirer.asked.clear()
    first = ada.post(path, key="first")
    assert (first.status_code, first.json()["state"]) == (200, "unknown")
    asked = len(acquirer.asked)
    acquirer.always(None, on="lookup")
    assert ada.post(path, key="first").json() == first.json()
    assert len(acquirer.asked) == asked > 0
    found = ada.post(path, key="second")
    assert (found.status_code, found.json()["state"]) == (200, "succeeded")
    assert state(arena, lost) == ("succeeded", "paid")
    assert ada.post(path, key="second").json() == found.json()
    for late in (ada.post(path), ada.post(f"{CALLS}{lost.pk}/settle/", NOT_DONE)):
        assert (late.status_code, late.json()["code"]) == (409, "already_settled")
    assert state(arena, lost) == ("succeeded", "paid")
    assert len(acquirer.asked) == asked + 1


def test_nothing_of_the_database_is_held_while_it_is_looked_up(
    arena: Cast, ada: Door, lost: ToolCall, acquirer: Acquirer
) -> None:
    """Although the answer is kept for the key, which takes a transaction."""
    held: list[Any] = []

    def look_up() -> None:
        held.append(connections["default"])
        try:
            ada.post(f"{CALLS}{lost.pk}/look-up/", key="k")
        finally:
            connection.close()

    acquirer.has_come.clear()
    acquirer.may_answer.clear()
    thread = threading.Thread(target=look_up)
    thread.start()
    try:
        assert acquirer.has_come.wait(20)
        assert held[0].connection is None
        # Meanwhile a person knows better; the look-up that comes late leaves it at that.
        assert ada.post(f"{CALLS}{lost.pk}/settle/", DONE).status_code == 200
    finally:
        acquirer.may_answer.set()
        thread.join(60)
    assert state(arena, lost) == ("succeeded", "paid")
    with arena.scope():
        assert AuditRecord.objects.filter(action="tools.call.settled").count() == 1


def test_a_call_that_the_machine_knows_is_nobodys_to_settle(
    arena: Cast, ada: Door, stuck: Undo
) -> None:
    """It has no part of somebody else's: there is nothing to ask."""
    for path, body in (("settle/", DONE), ("look-up/", {})):
        assert ada.post(f"{CALLS}{stuck.call_id}/{path}", body).status_code == 404


def test_what_could_not_be_taken_back_is_listed_tried_again_and_settled(
    arena: Cast, ada: Door, stuck: Undo
) -> None:
    (row,) = ada.get(UNDOS).json()["results"]
    assert row == ada.get(f"{UNDOS}{stuck.pk}/").json()
    assert (row["id"], row["call"], row["tool"]) == (
        str(stuck.pk),
        str(stuck.call_id),
        "hold_seats",
    )
    assert (row["result"], row["asked_for"]) == ({"hold_id": "h"}, "ana")
    assert (row["state"], row["attempts"], row["reason"]) == ("stuck", 5, "failed")
    assert row["error"]["message"] == "Não funcionou."
    for body in ({}, {"note": "\u0000 \u0000 "}, {"note": "ok", "state": "undone"}):
        assert ada.post(f"{UNDOS}{stuck.pk}/settle/", body).status_code == 422
    again = ada.post(f"{UNDOS}{stuck.pk}/retry/", key="k")
    assert (again.status_code, again.json()["state"], again.json()["attempts"]) == (200, "due", 0)
    assert ada.post(f"{UNDOS}{stuck.pk}/retry/", key="k").json() == again.json()
    assert ada.post(f"{UNDOS}{stuck.pk}/retry/").status_code == 409
    assert ada.post(f"{UNDOS}{stuck.pk}/settle/", {"note": "à mão"}).status_code == 409
    assert ada.get(UNDOS).json()["results"] == []
    with arena.scope():
        transition(Undo.objects.filter(pk=stuck.pk), UNDO_MACHINE, "stuck")
    settled = ada.post(f"{UNDOS}{stuck.pk}/settle/", {"note": "liberado à mão"})
    assert (settled.status_code, settled.json()["state"]) == (200, "settled")
    assert settled.json()["note"] == "liberado à mão"
    late = ada.post(f"{UNDOS}{stuck.pk}/settle/", {"note": "outra vez"})
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    with arena.scope():
        last = AuditRecord.objects.order_by("-id")[0]
        assert (last.action, last.actor) == (
            "tools.undo.settled",
            f"user:{arena.user('ada').pk}",
        )


@pytest.mark.parametrize("name", ["ana", "fabio", "rita", None])
def test_who_may_not_configure_sees_and_changes_nothing(
    arena: Cast, lost: ToolCall, stuck: Undo, name: str | None
) -> None:
    door = Door(arena, name)
    for path in (CALLS, UNDOS):
        assert door.get(path).status_code == (403 if name else 401)
    refused(door, lost, stuck, 404 if name else 401)
    assert state(arena, lost) == ("unknown", "pending")


def test_another_box_office_sees_and_changes_nothing(
    arena: Cast, teatro: Cast, lost: ToolCall, stuck: Undo
) -> None:
    assign_perm("tenancy.configure", teatro.user("rui"), teatro.tenant)
    rui = Door(teatro, "rui")
    for path in (CALLS, UNDOS):
        assert rui.get(path).json()["results"] == []
    refused(rui, lost, stuck, 404)
    rui.root = "/t/arena"
    assert rui.get(CALLS).status_code == 404
    refused(rui, lost, stuck, 404)
    assert state(arena, lost) == ("unknown", "pending")
    with arena.scope():
        assert Undo.objects.get().state == "stuck"


def refused(door: Door, call: ToolCall, undo: Undo, status: int) -> None:
    """Every door of the two answers with the status."""
    one, other = f"{CALLS}{call.pk}/", f"{UNDOS}{undo.pk}/"
    replies = [
        door.get(one),
        door.post(f"{one}settle/", DONE),
        door.post(f"{one}look-up/"),
        door.get(other),
        door.post(f"{other}settle/", {"note": "não devia"}),
        door.post(f"{other}retry/"),
    ]
    assert [reply.status_code for reply in replies] == [status] * len(replies)

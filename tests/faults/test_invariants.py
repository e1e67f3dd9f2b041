"""The invariants find what they are for: each breach is told, a sound house is not."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction

from agents import services
from agents.models import Message, Run, Speaker
from boxoffice.audit.services import record
from boxoffice.ticketing.models import Order
from boxoffice.ticketing.services.holds import hold_create
from tests.faults.invariants import violations
from tests.support.cast import Cast
from tests.support.guards import unguarded
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker, handed_out, worker
from tests.ticketing.buying import order_place
from tools.models import ToolCall

__all__ = ["handed_out", "worker"]

type Breach = Callable[[Cast, Run], Any]


@pytest.fixture
def sound(arena: Cast, worker: Worker, model: ScriptedModel) -> Run:
    """A run that has held a seat and given its answer."""
    arguments = {
        "event_id": str(arena.seats.event.pk),
        "seat_ids": [str(pk) for pk in arena.seats.ids("P-A1")],
    }
    model.script([Reply.tools(("hold_seats", arguments)), Reply.text("Pronto.")])
    run = arena.post("ana", "reserve A1")
    worker.work(run)
    return run


def hold(arena: Cast) -> Any:
    (seat,) = arena.seats.ids("P-B1")
    return hold_create(event_id=arena.seats.event.pk, seat_ids=[seat], user_id=arena.user("ana").pk)


def an_order(arena: Cast) -> Order:
    return order_place(hold_id=hold(arena).pk, user_id=arena.user("ana").pk, payment_key="k")


def second_call(arena: Cast, run: Run) -> None:
    call = ToolCall.objects.get(run_ref=run.pk)
    call.pk, call.idempotency_key, call.state = uuid4(), "another", "proposed"
    call._state.adding = True
    call.save()
    ToolCall.objects.filter(pk=call.pk).update(state="succeeded")


def lost_result(arena: Cast, run: Run) -> None:
    with unguarded("tools_toolcall"):
        ToolCall.objects.update(result=None)


def told_twice(arena: Cast, run: Run) -> None:
    with transaction.atomic():
        record(action="approvals.request.executed", actor="x", target=f"approval:{uuid4()}")


BREACHES: dict[str, tuple[Breach, str]] = {
    "a hold of nobody": (lambda arena, run: hold(arena), "no call says so"),
    "an order of nobody": (lambda arena, run: an_order(arena), "no call says so"),
    "a price that is wrong": (
        lambda arena, run: Order.objects.filter(pk=an_order(arena).pk).update(total_minor=1),
        "costs 1; paid",
    ),
    "a hold of nothing": (lambda arena, run: hold(arena).claims.all().delete(), "holds nothing"),
    "a run left queued": (
        lambda arena, run: services.message_post(
            principal=arena.principal("ana"), conversation_id=run.conversation_id, text="e?"
        ),
        "is left queued",
    ),
    "a message left lying": (
        lambda arena, run: Message.objects.filter(speaker=Speaker.FAN).update(taken_at=None),
        "was left lying",
    ),
    "an answer that is gone": (
        lambda arena, run: Message.objects.filter(speaker=Speaker.ASSISTANT).delete(),
        "has given 0 answers",
    ),
    "a gap": (lambda arena, run: Run.objects.update(last_seq=9), "not up to 9"),
    "usage that is not booked": (lambda arena, run: Run.objects.update(steps_used=9), "counts 9"),
    "two calls for one effect": (second_call, "2 calls say that they made"),
    "a call of no step": (second_call, "was proposed by no step"),
    "a call without a result": (
        lost_result,
        "without a result",
    ),
    "an outcome of no request": (told_twice, "its row knows nothing of it"),
}


def test_a_sound_house_has_no_violations(arena: Cast, sound: Run) -> None:
    assert violations(arena.tenant) == []


@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_is_found(arena: Cast, sound: Run, name: str) -> None:
    breach, expected = BREACHES[name]
    with arena.scope():
        breach(arena, sound)
    found = violations(arena.tenant)
    assert any(expected in one for one in found), found

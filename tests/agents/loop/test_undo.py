"""What becomes of a run's effects when it is stopped, refused or fails."""

import threading
from typing import Any

import pytest

from agents import recovery, services
from agents.models import Conversation, Run, RunState
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.common.exceptions import Conflict, Forbidden, NotFound
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results
from tests.support.worker import Worker
from tools import compensation, signals
from tools.models import Undo


@pytest.fixture(autouse=True)
def no_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker's word is left out: here the clock undoes, when a test says so."""
    monkeypatch.setattr(signals.undo_planned, "receivers", [])


def hold_arguments(arena: Cast, *names: str) -> dict[str, Any]:
    seats = [str(pk) for pk in arena.seats.ids(*names)]
    return {"event_id": str(arena.seats.event.pk), "seat_ids": seats}


def holds(arena: Cast, *names: str) -> Reply:
    return Reply.tools(("hold_seats", hold_arguments(arena, *names)))


def stop(arena: Cast, run: Run, *, undo: bool, name: str = "ana") -> Run:
    with arena.scope():
        return services.run_cancel(principal=arena.principal(name), run_id=run.pk, undo=undo)


def stopped(
    arena: Cast, worker: Worker, model: ScriptedModel, *, undo: bool, names: tuple[str, ...]
) -> Run:
    """A run that has held seats, and was stopped while the model was asked what to say."""
    go = threading.Event()
    model.script([holds(arena, *names), Reply.text("Nunca.").when(go)])
    run = arena.post("ana", "reserve")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(2)
    stop(arena, run, undo=undo)
    future.result(30)
    go.set()
    assert arena.run(run.pk).state == RunState.CANCELLED
    return run


def test_a_run_that_fails_gives_the_seats_back(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([holds(arena, "B-A1", "B-A2"), Reply.error(400, "invalid_request_error")])
    run = arena.post("ana", "reserve")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.FAILED
    assert arena.counts()["live_claims"] == 2
    assert compensation.undo_due() == 1
    assert arena.counts()["live_claims"] == 0
    assert [(c.tool, c.state) for c in arena.calls(run.pk)] == [
        ("hold_seats", "compensated"),
        ("release_hold", "succeeded"),
    ]


def test_a_stop_keeps_the_seats_unless_the_fan_says_so(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = stopped(arena, worker, model, undo=False, names=("B-A1", "B-A2"))
    assert compensation.undo_due() == 0
    assert arena.counts()["live_claims"] == 2
    assert stop(arena, run, undo=True).state == RunState.CANCELLED
    assert stop(arena, run, undo=True).state == RunState.CANCELLED
    assert compensation.undo_due() == 1
    assert arena.counts()["live_claims"] == 0


def test_a_stop_with_the_seats_gives_them_back(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = stopped(arena, worker, model, undo=True, names=("B-A1", "B-A2"))
    with arena.scope():
        assert Undo.objects.get(run_ref=run.pk).state == "due"
    assert compensation.undo_due() == 1
    assert arena.counts()["live_claims"] == 0


def test_only_the_fan_gives_the_seats_back(
    arena: Cast, teatro: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = stopped(arena, worker, model, undo=False, names=("B-A1",))
    for house, name, error in (
        (arena, "fabio", NotFound),
        (arena, "rita", Forbidden),
        (teatro, "teo", NotFound),
    ):
        with pytest.raises(error):
            stop(house, run, undo=True, name=name)
    assert compensation.undo_due() == 0


def test_an_answer_that_was_given_is_not_undone(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([holds(arena, "B-A1"), Reply.text("Reservado.")])
    run = arena.post("ana", "reserve")
    worker.work(run)
    with pytest.raises(Conflict):
        stop(arena, run, undo=True)
    assert compensation.undo_due() == 0
    assert arena.counts()["live_claims"] == 1


def test_a_handoff_keeps_the_seats(arena: Cast, worker: Worker, model: ScriptedModel) -> None:
    wrong = Reply.tools(("hold_seats", {"event_id": "x", "seat_ids": []}))
    model.script([holds(arena, "B-A1"), wrong, wrong, wrong, wrong])
    run = arena.post("ana", "reserve")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.PARTIAL
    assert compensation.undo_due() == 0
    assert arena.counts()["live_claims"] == 1


def test_the_next_run_knows_that_the_seats_are_gone(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = stopped(arena, worker, model, undo=True, names=("B-A1", "B-A2"))
    conversation = Conversation(pk=run.conversation_id, tenant_id=run.tenant_id)

    def told() -> dict[str, Any]:
        model.reset()
        model.script([Reply.text("Certo.")])
        worker.work(arena.post("ana", "e agora?", conversation))
        blocks = [b for m in model.requests[-1]["messages"] for b in m["content"]]
        (result,) = [block for block in blocks if block["type"] == "tool_result"]
        return data_of(result)

    assert told()["status"] == "undone", "also while it is being undone"
    compensation.undo_due()
    after = told()
    assert after["status"] == "undone"
    assert after["was"]["status"] == "active"


def waiting(arena: Cast, worker: Worker, model: ScriptedModel) -> Run:
    """A run that has held seats and asks the fan to confirm buying them."""

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if not results:
            return holds(arena, "B-A1", "B-A2")
        if results[0].get("status") == "active":
            return Reply.tools(
                ("place_order", {"hold_id": results[0]["hold_id"]}), ("search_events", {})
            )
        return Reply.text("Certo.")

    model.route(answer)
    run = arena.post("ana", "compre")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.WAITING
    return run


@pytest.mark.parametrize("undo", [False, True])
def test_a_stop_takes_the_open_question_back(
    arena: Cast, worker: Worker, model: ScriptedModel, undo: bool
) -> None:
    run = waiting(arena, worker, model)
    assert stop(arena, run, undo=undo).state == RunState.CANCELLED
    compensation.undo_due()
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
    assert request.state == "withdrawn"
    states = {call.tool: call.state for call in arena.calls(run.pk)}
    assert states["place_order"] == "denied"
    assert arena.counts()["orders"] == 0
    assert arena.counts()["live_claims"] == (0 if undo else 2)


def test_a_stop_after_the_yes_and_before_the_deed_leaves_nothing_open(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = waiting(arena, worker, model)
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        approvals.approve(request_id=request.pk, principal=arena.principal("ana"))
    assert arena.run(run.pk).state == RunState.QUEUED
    assert stop(arena, run, undo=True).state == RunState.CANCELLED
    worker.work(run)
    with arena.scope():
        assert ApprovalRequest.objects.get(pk=request.pk).state == "failed"
    assert arena.counts()["orders"] == 0
    assert {call.state for call in arena.calls(run.pk)} <= {"succeeded", "denied"}


def test_a_declined_purchase_tells_that_the_seats_went_back(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = waiting(arena, worker, model)
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        approvals.deny(request_id=request.pk, principal=arena.principal("ana"))
    worker.work(run)
    told = data_of(last_tool_results(model.requests[-1])[0])
    assert told["error"]["code"] == "denied_by_fan"
    assert "given back" in told["error"]["message"]
    assert arena.counts()["live_claims"] == 0


def test_the_sweep_ends_a_stopped_run_whose_worker_died(arena: Cast) -> None:
    run = arena.post("ana", "oi")
    with arena.scope():
        Run.objects.filter(pk=run.pk).update(cancel_requested_at=run.created_at)
    recovery.sweep(lambda tenant_id, run_id: None)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert arena.kinds(run.pk) == ["input", "final"]

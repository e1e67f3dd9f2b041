"""A purchase in the loop: the provider is asked while nothing is held, and doubt is handed on."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from agents import recovery
from agents.models import Conversation, Run, RunState, Step
from agents.services import run_cancel
from agents.stream import history
from agents.timeline import timeline_of
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.acquirer.server import Trouble
from boxoffice.ticketing.models import Order
from boxoffice.ticketing.services.holds import hold_create
from tests.agents.loop.test_loop import data_of
from tests.support.acquirer import Acquirer
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results
from tests.support.worker import Worker
from tools import failures, settling


@pytest.fixture
def acquirer(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Acquirer]:
    """The payment provider."""
    monkeypatch.setattr(failures, "FIRST_PAUSE_SECONDS", 0.0)
    with Acquirer() as live:
        settings.PAYMENT_URL = live.url
        yield live


@pytest.fixture
def run(arena: Cast, worker: Worker, model: ScriptedModel, acquirer: Acquirer) -> Run:
    """ana has confirmed a purchase; a worker is to go on."""
    with arena.scope():
        hold = hold_create(
            event_id=arena.seats.event.pk,
            seat_ids=arena.seats.ids("B-A1", "B-A2"),
            user_id=arena.user("ana").pk,
        )
    call = ("place_order", {"hold_id": str(hold.pk)})
    model.script([Reply.tools(call), Reply.text("Uma pessoa vai verificar."), Reply.text("Certo.")])
    run = arena.post("ana", "pode comprar")
    worker.work(run)
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        approvals.approve(request_id=request.pk, principal=arena.principal("ana"))
    return run


def in_transaction() -> int:
    """How many connections to the database are in a transaction, ours left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND backend_type = %s",
            ["client backend"],
        )
        return int(cursor.fetchone()[0])


def test_doubt_is_told_to_the_model_and_handed_to_a_person(
    arena: Cast, worker: Worker, model: ScriptedModel, acquirer: Acquirer, run: Run
) -> None:
    acquirer.expect(Trouble.DROP_AFTER)
    acquirer.always(Trouble.ERROR, on="lookup")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    (result,) = last_tool_results(model.requests[-1])
    error = data_of(result)["error"]
    assert (error["code"], error["retryable"]) == ("outcome_unknown", False)
    assert "not repeat" in error["hint"]
    (call,) = arena.calls(run.pk)
    assert call.state == "unknown"
    with arena.scope():
        conversation = Conversation.objects.get(pk=run.conversation_id)
        assert conversation.handoff_at is not None
        assert conversation.handoff_reason == "outcome_unknown"
        step = Step.objects.get(run=run, kind="results")
        assert step.content["handoff"] == "outcome_unknown"
        assert [e["handoff"] for e in entries(conversation)] == [True]
    finished = [e for e in history(run_id=run.pk) if e["type"] == "run.finished"]
    assert [event["handoff"] for event in finished] == [True]
    acquirer.always(None, on="lookup")
    with arena.scope():
        settling.call_look_up(call_id=call.pk, by=arena.principal("ada"))
        (told,) = conversation.messages.filter(speaker="human")
    again = arena.post("ana", "e então?", conversation)
    worker.work(again)
    heard = str(model.requests[-1]["messages"])
    assert "outcome_unknown" not in heard  # the ledger knows better by now
    assert "paid" in heard
    assert told.text in heard


def entries(conversation: Conversation) -> list[dict[str, Any]]:
    """The runs of the page."""
    return [e for e in timeline_of(conversation)["entries"] if e["kind"] == "run"]


def test_nothing_is_held_while_the_provider_is_asked_and_a_stop_waits_for_it(
    arena: Cast, worker: Worker, acquirer: Acquirer, run: Run
) -> None:
    acquirer.may_answer.clear()
    work = worker.start(run.tenant_id, run.pk)
    assert acquirer.has_come.wait(20)
    assert in_transaction() == 0
    with arena.scope():
        (call,) = arena.calls(run.pk)
        assert call.state == "running"
        assert Order.objects.get().status == "pending"
        run_cancel(principal=arena.principal("ana"), run_id=run.pk)
    _until_cancelled(worker, run.pk)
    acquirer.may_answer.set()
    work.result(30)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert arena.counts()["orders"] == 1
    recovery.sweep(lambda tenant_id, run_id: None)
    with arena.scope():
        (call,) = arena.calls(run.pk)
        assert call.state == "succeeded"
        conversation = Conversation.objects.get(pk=run.conversation_id)
        (told,) = conversation.messages.filter(speaker="human")
        assert "Noite de Jazz" in told.text


def _until_cancelled(worker: Worker, run_id: UUID) -> None:
    """Until the run is asked to end, while it waits for what is on its way."""
    deadline = time.monotonic() + 20
    task = worker.runtime._live[run_id].task
    while task is None or not task.cancelling():
        assert time.monotonic() < deadline, "nobody has asked the run to end"
        time.sleep(0.02)


def test_a_run_that_is_out_of_time_ends_after_what_is_on_its_way(
    arena: Cast, worker: Worker, acquirer: Acquirer, run: Run
) -> None:
    acquirer.may_answer.clear()
    with arena.scope():
        Run.objects.filter(pk=run.pk).update(max_wall_seconds=1, worked_ms=0)
    work = worker.start(run.tenant_id, run.pk)
    assert acquirer.has_come.wait(20)
    _until_cancelled(worker, run.pk)  # its time is over
    acquirer.may_answer.set()
    work.result(30)
    assert arena.run(run.pk).state == RunState.PARTIAL
    assert arena.counts()["orders"] == 1

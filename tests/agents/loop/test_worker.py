"""The host of the runs: how it ends."""

import threading

import pytest

from agents.loop import runner
from agents.loop import worker as host
from agents.loop.runner import MAX_CLAIMS
from agents.models import Conversation, Run, RunState
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker


def test_a_second_signal_does_not_wait_for_the_first(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_runtime", worker.runtime)
    monkeypatch.setattr(host, "_is_ending", False)
    monkeypatch.setattr(host, "_end_by_force", lambda: None)  # it would end the tests
    calls: list[str] = []
    drain = worker.runtime.drain

    def interrupted(timeout: float = 20.0) -> None:
        calls.append("drain")
        worker.runtime.is_draining = True
        host.shut_down()  # the handler runs again on top of itself
        drain(timeout)

    monkeypatch.setattr(worker.runtime, "drain", interrupted)
    host.shut_down()
    monkeypatch.undo()
    assert calls == ["drain"]


def test_a_run_at_work_is_given_back_and_another_worker_ends_it(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    go = threading.Event()
    model.script([Reply.text("Nunca.").when(go), Reply.text("Oi, ana.")])
    run = arena.post("ana", "oi")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    worker.runtime.drain()
    go.set()
    future.result(10)
    assert arena.run(run.pk).state == RunState.QUEUED
    other = Worker()
    other.work(run)
    other.runtime.drain()
    assert arena.answer(run.pk) == "Oi, ana."
    assert arena.run(run.pk).lease_epoch == 2


def test_a_worker_that_ends_takes_nothing_more(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = arena.post("ana", "oi")
    worker.runtime.drain()
    worker.start(run.tenant_id, run.pk).result(10)
    assert arena.run(run.pk).state == RunState.QUEUED
    assert model.requests == []


def test_a_run_whose_state_its_workers_die_of_is_given_to_a_person(
    arena: Cast, worker: Worker, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not looked at once more: whatever is wrong with it would end this worker too."""
    looks: list[object] = []
    monkeypatch.setattr(runner, "state_load", looks.append)
    run = arena.post("ana", "oi")
    with arena.scope():
        Run.objects.filter(pk=run.pk).update(lease_epoch=MAX_CLAIMS)
    worker.work(run)
    ended = arena.run(run.pk)
    assert (ended.state, ended.error["code"]) == (RunState.FAILED, "gave_up")
    assert "pessoa" in arena.answer(run.pk)
    with arena.scope():
        assert Conversation.objects.get(pk=run.conversation_id).handoff_reason == "gave_up"
    assert (looks, model.requests) == ([], [])

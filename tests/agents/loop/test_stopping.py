"""A stop: at once, never in the middle of a write, and never half won."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from agents import checkpoints, leases, recovery, services
from agents.control import tell_worker
from agents.loop import worker as host
from agents.models import Conversation, Message, Run, RunState, Speaker
from agents.stream import history
from boxoffice.common.exceptions import Conflict
from boxoffice.tenancy.models import Tier
from tests.agents.loop.test_steering import conversation_of, until_said
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, user_texts
from tests.support.worker import Worker
from tools import registry
from tools.models import ToolCall


@pytest.fixture
def no_heartbeat(settings: Any) -> None:
    """The heart beats once a day: whatever is learnt at once is learnt by the word."""
    settings.HEARTBEAT_SECONDS = 86_400


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """No word reaches a worker, as without Valkey."""
    monkeypatch.setattr("agents.control.tell_worker", lambda **about: None)


def stop(arena: Cast, run: Run, name: str = "ana") -> Run:
    with arena.scope():
        return services.run_cancel(principal=arena.principal(name), run_id=run.pk)


def hanging(arena: Cast, worker: Worker, model: ScriptedModel) -> tuple[Run, Any]:
    """A run whose model call has said something and then says nothing more."""
    model.script([Reply.hang(after=3, text="um dois três quatro cinco")])
    run = arena.post("ana", "conte")
    future = worker.start(run.tenant_id, run.pk)
    until_said(run)
    return run, future


def test_the_word_stops_a_model_call_without_waiting_for_the_heart(
    no_heartbeat: None, arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run, future = hanging(arena, worker, model)
    stop(arena, run)
    future.result(30)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert arena.answer(run.pk).startswith("um dois")


def test_the_heart_finds_the_stop_that_no_word_told_of(
    deaf: None, arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run, future = hanging(arena, worker, model)
    stop(arena, run)
    future.result(30)
    assert arena.run(run.pk).state == RunState.CANCELLED


def test_a_word_alone_stops_nothing(
    no_heartbeat: None, arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    go = threading.Event()
    model.script([Reply.text("Oi, ana.").when(go)])
    run = arena.post("ana", "oi")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    for _ in range(5):
        tell_worker(owner=worker.runtime.owner, run_id=run.pk)
    go.set()
    future.result(30)
    assert arena.run(run.pk).state == RunState.SUCCEEDED


def test_a_stop_while_a_run_is_loaded_ends_it_cleanly(
    arena: Cast, worker: Worker, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, go = threading.Event(), threading.Event()
    from_database = host.Runner.__init__.__globals__["state_load"]

    def slow(**about: Any) -> Any:
        loading.set()
        go.wait(20)
        return from_database(**about)

    monkeypatch.setattr("agents.loop.runner.state_load", slow)
    run = arena.post("ana", "oi")
    future = worker.start(run.tenant_id, run.pk)
    assert loading.wait(20)
    stop(arena, run)
    go.set()
    future.result(30)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert model.requests == []


def test_a_write_in_the_middle_is_made_to_its_end_and_what_follows_is_not_begun(
    arena: Cast, worker: Worker, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, go = threading.Event(), threading.Event()
    spec = registry._tools["hold_seats"]
    holds = spec.run

    def slow(context: Any, arguments: Any) -> Any:
        output = holds(context, arguments)
        inside.set()
        go.wait(20)
        return output

    monkeypatch.setitem(registry._tools, "hold_seats", _with_run(spec, slow))
    event = str(arena.seats.event.pk)
    first, second = ([str(pk) for pk in arena.seats.ids(name)] for name in ("B-A1", "B-A2"))
    model.script(
        [
            Reply.tools(
                ("hold_seats", {"event_id": event, "seat_ids": first}),
                ("hold_seats", {"event_id": event, "seat_ids": second}),
                text="Vou reservar.",
            )
        ]
    )
    # The stop stands in line for the run's row, and the next write could overtake it.
    stopped, fences = threading.Event(), []
    fence = leases.fence

    def patient(lease: leases.Lease) -> None:
        fences.append(lease)
        assert len(fences) == 1 or stopped.wait(20)
        fence(lease)

    monkeypatch.setattr(leases, "fence", patient)
    run = arena.post("ana", "reserve")
    future = worker.start(run.tenant_id, run.pk)
    assert inside.wait(20)
    stopping = threading.Thread(target=_quietly, args=(lambda: stop(arena, run),))
    stopping.start()
    until_somebody_waits()
    go.set()
    stopping.join()
    stopped.set()
    future.result(30)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert [call.state for call in arena.calls(run.pk)] == ["succeeded", "denied"]
    assert arena.counts()["live_claims"] == 1


def until_somebody_waits() -> None:
    """Until the stop stands in line for the row that the write holds."""
    deadline = time.monotonic() + 20
    while True:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) "
                "WHERE datname = current_database() AND NOT granted"
            )
            if cursor.fetchone()[0]:
                return
        assert time.monotonic() < deadline, "the stop does not wait for the write"
        time.sleep(0.02)


def ends_on_the_page(run: Run) -> list[str]:
    """The ends that the page of a run that is over was told of; they come some moments later."""
    deadline = time.monotonic() + 10
    while True:
        ends = [e["state"] for e in history(run_id=run.pk) if e["type"] == "run.finished"]
        if ends:
            return ends
        assert time.monotonic() < deadline, "the page was not told"
        time.sleep(0.02)


def numbered_without_a_gap(arena: Cast, run: Run) -> bool:
    """Also when a transaction that had counted on was rolled back."""
    with arena.scope():
        numbers = list(run.steps.order_by("seq").values_list("seq", flat=True))
        last = Run.objects.get(pk=run.pk).last_seq
    return numbers == list(range(1, last + 1))


def _with_run(spec: Any, run: Any) -> Any:
    """The same tool with another body."""
    twin = object.__new__(type(spec))
    for name in spec.__slots__:
        object.__setattr__(twin, name, run if name == "run" else getattr(spec, name))
    return twin


def _quietly(work: Callable[[], Any]) -> None:
    try:
        work()
    finally:
        connection.close()


@pytest.mark.parametrize("first", ["stop", "answer"])
def test_stop_and_answer_at_the_same_moment_have_one_winner(
    deaf: None,
    arena: Cast,
    worker: Worker,
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    """The stop is committed just before the answer's commit, or just after it."""
    commit = checkpoints.answer_commit
    told: list[str] = []

    def racing(**about: Any) -> Any:
        if first == "answer":
            done = commit(**about)
        try:
            told.append(str(stop(arena, run).state))
        except Conflict:
            told.append("conflict")
        return done if first == "answer" else commit(**about)

    monkeypatch.setattr(checkpoints, "answer_commit", racing)
    model.script([Reply.text("Olá, ana!")])
    run = arena.post("ana", "oi")
    worker.work(run)
    ended = arena.run(run.pk).state
    wanted = {"stop": ("running", "cancelled"), "answer": ("conflict", "succeeded")}
    assert (told[0], ended) == wanted[first]
    assert arena.answer(run.pk) == "Olá, ana!"
    assert ends_on_the_page(run) == [ended]
    assert numbered_without_a_gap(arena, run)


def test_stops_and_answers_race_freely(arena: Cast, worker: Worker, model: ScriptedModel) -> None:
    """Whoever wins: the stopper, the row, the step, the page and the message say the same."""
    model.route(lambda body: Reply.text("Olá, ana!"))
    for number in range(12):
        run = arena.post("ana", f"oi {number}")
        told: list[str] = []

        def stopper(run: Run = run, told: list[str] = told) -> None:
            try:
                stop(arena, run)
                told.append("stopped")
            except Conflict:
                told.append("conflict")

        future = worker.start(run.tenant_id, run.pk)
        if number % 3:
            model.wait_for_requests(1)
        thread = threading.Thread(target=_quietly, args=(stopper,))
        thread.start()
        future.result(30)
        thread.join()
        recovery.sweep(lambda tenant_id, run_id: None)
        state = arena.run(run.pk).state
        assert state == ("cancelled" if told == ["stopped"] else "succeeded")
        with arena.scope():
            final = run.steps.get(kind="final")
            said = Message.objects.filter(run=run, speaker=Speaker.ASSISTANT)
            assert final.content["state"] == state
            assert [m.is_partial for m in said] in ([], [state == "cancelled"])
        assert ends_on_the_page(run) == [state]
        assert numbered_without_a_gap(arena, run)
        model.reset()
        model.route(lambda body: Reply.text("Olá, ana!"))


def test_a_stopped_run_asks_nobody(
    deaf: None,
    arena: Cast,
    worker: Worker,
    model: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop just before the run would begin to wait: no request is made, the run ends."""
    wait = checkpoints.run_wait

    def racing(**about: Any) -> Any:
        stop(arena, run)
        return wait(**about)

    monkeypatch.setattr(checkpoints, "run_wait", racing)
    mail = {"to": "ana@example.com", "subject": "Olá", "body": "Seu ingresso está aqui."}
    model.script([Reply.tools(("send_email", mail))])
    run = arena.post("ana", "mande um e-mail")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.CANCELLED
    (call,) = arena.calls(run.pk)
    assert (call.state, call.approval) == ("denied", None)


def test_a_stopped_run_that_lost_its_worker_takes_no_message_with_it(
    arena: Cast, worker: Worker, model: ScriptedModel, handed_out: list[Any]
) -> None:
    """Stopped while its worker dies: the sweep ends it, and what was said after gets an answer."""
    run = arena.post("ana", "oi")
    with arena.scope():
        Run.objects.filter(pk=run.pk).update(cancel_requested_at=run.created_at)
    later = arena.post("ana", "e amanhã?", conversation_of(run))
    assert later.pk != run.pk
    recovery.sweep(lambda tenant_id, run_id: None)
    assert arena.run(run.pk).state == RunState.CANCELLED
    model.script([Reply.text("Amanhã tem.")])
    worker.work(later)
    assert arena.answer(later.pk) == "Amanhã tem."


def test_what_was_said_before_the_stop_and_not_taken_up_is_answered_after_it(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run, future = hanging(arena, worker, model)
    for text in ("na verdade três", "e no sábado"):
        assert arena.post("ana", text, conversation_of(run)).pk == run.pk
    stop(arena, run)
    future.result(30)
    heir = the_other(arena, run)
    model.script([Reply.text("Três no sábado.")])
    worker.work(heir)
    assert arena.answer(heir.pk) == "Três no sábado."
    assert user_texts(model.requests[-1]) == ["conte", "na verdade três\ne no sábado"]
    nothing_is_open(arena, run.conversation_id)


def test_a_message_after_the_stop_does_not_join_the_stopped_run(
    deaf: None, no_heartbeat: None, arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run, future = hanging(arena, worker, model)
    stop(arena, run)
    later = arena.post("ana", "outra coisa", conversation_of(run))
    assert later.pk != run.pk
    worker.work(later)
    assert arena.run(later.pk).state == RunState.QUEUED, "one at a time"
    tell_worker(owner=worker.runtime.owner, run_id=run.pk)
    future.result(30)
    model.script([Reply.text("Claro.")])
    worker.work(later)
    assert arena.answer(later.pk) == "Claro."


def test_a_message_that_meets_the_last_step_gets_a_run_of_its_own(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=1)
    go = threading.Event()
    model.script([Reply.text("Um.").when(go), Reply.text("Dois.")])
    run = arena.post("ana", "um")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    arena.post("ana", "dois", conversation_of(run))
    go.set()
    future.result(30)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert arena.answer(run.pk) == "Um."
    heir = the_other(arena, run)
    worker.work(heir)
    assert arena.answer(heir.pk) == "Dois."
    assert user_texts(model.requests[-1]) == ["um", "dois"]
    nothing_is_open(arena, run.conversation_id)


@pytest.mark.parametrize("end", ["handoff", "failed"])
def test_a_message_that_meets_another_end_gets_a_run_of_its_own(
    arena: Cast, worker: Worker, model: ScriptedModel, end: str
) -> None:
    go = threading.Event()
    bad = Reply.error(400, "invalid_request_error")
    if end == "handoff":
        with arena.scope():
            Tier.objects.filter(slug="pro").update(max_steps=1)
        bad = Reply.tools(("search_events", {}))
    model.script([bad.when(go), Reply.text("Estou aqui.")])
    run = arena.post("ana", "um")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    arena.post("ana", "você está aí?", conversation_of(run))
    go.set()
    future.result(30)
    assert arena.run(run.pk).state in (RunState.PARTIAL, RunState.FAILED)
    heir = the_other(arena, run)
    worker.work(heir)
    assert arena.answer(heir.pk) == "Estou aqui."
    nothing_is_open(arena, run.conversation_id)


def the_other(arena: Cast, run: Run) -> Run:
    with arena.scope():
        return Run.objects.exclude(pk=run.pk).get(conversation=run.conversation_id)


def nothing_is_open(arena: Cast, conversation_id: Any) -> None:
    with arena.scope():
        conversation = Conversation.objects.get(pk=conversation_id)
        assert conversation.messages.filter(taken_at=None).count() == 0
        runs = Run.objects.filter(conversation=conversation)
        assert {run.state for run in runs}.isdisjoint({"queued", "running", "waiting"})
        calls = ToolCall.objects.filter(conversation_ref=conversation_id)
        assert {call.state for call in calls} <= {"succeeded", "denied", "failed", "compensated"}


def lost_after(worker: Worker, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The heartbeat finds the run held no more between this commit and the word to the page."""
    commit = getattr(checkpoints, name)

    def beaten(**about: Any) -> Any:
        done = commit(**about)
        (runner,) = worker.runtime._live.values()
        worker.runtime._loop.call_soon_threadsafe(runner.lost)
        heard = threading.Event()
        worker.runtime._loop.call_soon_threadsafe(heard.set)
        assert heard.wait(20)
        return done

    monkeypatch.setattr(checkpoints, name, beaten)


def test_a_run_that_the_heart_finds_over_has_told_its_page(
    arena: Cast, worker: Worker, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_after(worker, monkeypatch, "answer_commit")
    model.script([Reply.text("Olá, ana!")])
    run = arena.post("ana", "oi")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert ends_on_the_page(run) == ["succeeded"]


def test_a_run_that_the_heart_finds_waiting_has_asked_on_its_page(
    arena: Cast, worker: Worker, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost_after(worker, monkeypatch, "run_wait")
    mail = {"to": "ana@example.com", "subject": "Olá", "body": "Seu ingresso está aqui."}
    model.script([Reply.tools(("send_email", mail))])
    run = arena.post("ana", "mande um e-mail")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.WAITING
    deadline = time.monotonic() + 10
    while not any(e["type"] == "approval.requested" for e in history(run_id=run.pk)):
        assert time.monotonic() < deadline, "the page was not told what is asked"
        time.sleep(0.02)

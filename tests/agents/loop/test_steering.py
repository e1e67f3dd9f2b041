"""What a fan says or stops while a run works: taken up once, in order, never lost."""

import threading
import time

import pytest
from django.db import connection

from agents import services
from agents.models import Conversation, Message, Run, RunState, Speaker
from agents.stream import history
from boxoffice.common.exceptions import Conflict
from boxoffice.ticketing.services.holds import hold_create
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, user_texts
from tests.support.worker import Worker


def conversation_of(run: Run) -> Conversation:
    return Conversation(pk=run.conversation_id, tenant_id=run.tenant_id)


def until_said(run: Run) -> None:
    """Wait until the first text of a run has reached its page."""
    deadline = time.monotonic() + 10
    while not any(e["type"] == "text.delta" for e in history(run_id=run.pk)):
        assert time.monotonic() < deadline, "nothing was said"
        time.sleep(0.02)


def test_a_message_during_a_run_is_answered_by_it_once_and_in_order(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    go = threading.Event()
    model.script([Reply.text("Um.").when(go), Reply.text("Dois e três.")])
    run = arena.post("ana", "um")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    joined = [arena.post("ana", text, conversation_of(run)) for text in ("dois", "três")]
    go.set()
    future.result(30)
    assert [other.pk for other in joined] == [run.pk, run.pk]
    assert user_texts(model.requests[-1]) == ["um", "dois\ntrês"]
    assert arena.answer(run.pk) == "Um.\n\nDois e três."
    assert len(model.requests) == 2


def test_a_message_between_two_steps_is_taken_up_with_the_results(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    go = threading.Event()
    model.script([Reply.tools(("search_events", {})).when(go), Reply.text("Achei.")])
    run = arena.post("ana", "o que tem?")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    arena.post("ana", "só no sábado", conversation_of(run))
    go.set()
    future.result(30)
    assert user_texts(model.requests[-1]) == ["o que tem?", "só no sábado"]
    assert arena.kinds(run.pk) == ["input", "model", "results", "input", "model", "final"]


def test_a_message_just_before_the_run_waits_gets_a_run_of_its_own(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        hold = hold_create(
            event_id=arena.seats.event.pk,
            seat_ids=arena.seats.ids("B-A1"),
            user_id=arena.user("ana").pk,
        )
    go = threading.Event()
    model.script(
        [Reply.tools(("place_order", {"hold_id": str(hold.pk)})).when(go), Reply.text("Espere.")]
    )
    run = arena.post("ana", "compre")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    arena.post("ana", "e a meia-entrada?", conversation_of(run))
    go.set()
    future.result(30)
    assert arena.run(run.pk).state == RunState.WAITING
    with arena.scope():
        heir = Run.objects.exclude(pk=run.pk).get()
        assert Message.objects.filter(speaker=Speaker.FAN, taken_at=None).count() == 0
    worker.work(heir)
    assert arena.answer(heir.pk) == "Espere."


def test_stopping_keeps_what_was_said_and_ends_the_model_call(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.hang(after=3, text="um dois três quatro cinco")])
    run = arena.post("ana", "conte")
    future = worker.start(run.tenant_id, run.pk)
    model.wait_for_requests(1)
    until_said(run)
    with arena.scope():
        services.run_cancel(principal=arena.principal("ana"), run_id=run.pk)
    future.result(30)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert arena.answer(run.pk).startswith("um dois")
    assert arena.kinds(run.pk) == ["input", "final"]


def test_a_finished_run_cannot_be_stopped(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.text("Oi.")])
    run = arena.post("ana", "oi")
    worker.work(run)
    with arena.scope(), pytest.raises(Conflict):
        services.run_cancel(principal=arena.principal("ana"), run_id=run.pk)


def test_a_queued_run_is_stopped_at_once_and_never_asks_the_model(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = arena.post("ana", "oi")
    with arena.scope():
        services.run_cancel(principal=arena.principal("ana"), run_id=run.pk)
    worker.work(run)
    assert arena.run(run.pk).state == RunState.CANCELLED
    assert model.requests == []


def test_the_same_client_id_is_the_same_message(arena: Cast) -> None:
    conversation = arena.conversation("ana")
    with arena.scope():
        posted = [
            services.message_post(
                principal=arena.principal("ana"),
                conversation_id=conversation.pk,
                text="oi",
                client_id="c1",
            )
            for _ in range(3)
        ]
        assert len({one.message.pk for one in posted}) == 1
        assert Message.objects.count() == 1
        assert Run.objects.count() == 1


def test_two_messages_at_the_same_instant_both_count(arena: Cast) -> None:
    conversation = arena.conversation("ana")
    barrier = threading.Barrier(8)
    runs: list[object] = []

    def post(number: int) -> None:
        try:
            barrier.wait()
            runs.append(arena.post("ana", f"mensagem {number}", conversation).pk)
        finally:
            connection.close()

    threads = [threading.Thread(target=post, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(runs) == 8
    assert len(set(runs)) == 1
    with arena.scope():
        assert Message.objects.filter(run_id=runs[0]).count() == 8

"""Asking the model again: as it was asked, with what the tools said then, and no tool runs."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection, transaction

from agents import handout, tasks
from agents.llm.gateway import ModelUnavailable
from agents.loop import worker as loop_worker
from agents.models import REPLAY_MACHINE, Replay, ReplayState, Run
from agents.replay import service
from agents.replay.errors import NothingFollows, RecordIncomplete, ThingsChanged
from agents.replay.service import replay_ask, replay_get, replay_work
from boxoffice.audit.models import AuditRecord
from boxoffice.billing.models import UsageEntry
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Forbidden, NotFound
from boxoffice.common.transitions import transition
from boxoffice.tenancy.models import Membership, Tenant, Tier
from tests.agents.replay.conftest import holds_seats
from tests.agents.replay.test_dry import everything, old_run
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker

type Redo = Callable[..., Replay]
SEARCH = Reply.tools(("search_events", {"query": "Show"}), text="Deixe ver.")


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The replays for which a worker would be woken."""
    found: list[UUID] = []
    monkeypatch.setattr(handout, "hand_out_replay", lambda tenant_id, pk: found.append(pk))
    return found


@pytest.fixture
def redo(arena: Cast, worker: Worker, model: ScriptedModel, woken: list[UUID]) -> Redo:
    """Have the model asked again by ada, with these replies."""

    def do(run: Run, seq: int, *replies: Reply) -> Replay:
        model.script(list(replies))
        replay = asked(arena, run, seq)
        replay_work(tenant_id=run.tenant_id, replay_id=replay.pk, ask=worker.runtime.ask)
        return fresh(arena, replay)

    return do


def asked(arena: Cast, run: Run, seq: int, by: str = "ada") -> Replay:
    with arena.scope():
        return replay_ask(principal=arena.principal(by), run_id=run.pk, from_step=seq)


def fresh(arena: Cast, replay: Replay) -> Replay:
    with arena.scope():
        return Replay.objects.get(pk=replay.pk)


def seats_of(arena: Cast) -> Reply:
    return Reply.tools(
        ("search_events", {}),
        ("search_seats", {"quantity": 2, "event_id": str(arena.seats.event.pk)}),
    )


def outcomes(replay: Replay) -> list[tuple[int, str]]:
    return [(turn["seq"], turn["outcome"]) for turn in replay.turns]


def test_a_model_that_keeps_to_the_record_is_asked_to_the_end(
    arena: Cast, model: ScriptedModel, searched: Run, redo: Redo
) -> None:
    recorded = list(model.requests)
    before = everything(arena)
    replay = redo(searched, 1, SEARCH, seats_of(arena), Reply.text("Achei dois lugares."))
    assert (replay.state, replay.outcome) == ("finished", "same_answer")
    assert outcomes(replay) == [(2, "same_calls"), (4, "same_calls"), (6, "same_answer")]
    assert everything(arena) == before
    sent = model.requests[len(recorded) :]
    for then, today in zip(recorded, sent, strict=True):
        for key in ("model", "system", "tools", "max_tokens"):
            assert then[key] == today[key]
    assert sent[0]["messages"] == recorded[0]["messages"]


def test_the_recorded_results_are_given_to_the_calls_of_today(
    arena: Cast, model: ScriptedModel, searched: Run, redo: Redo
) -> None:
    """In whatever order they are made today, under the ids that they have today."""
    then = model.requests[-1]["messages"]
    redo(searched, 4, seats_of(arena), Reply.text("Achei."))
    today = model.requests[-1]["messages"]
    by_tool = [
        {
            block["name"]: next(
                result["content"]
                for message in messages
                for result in message["content"]
                if result.get("tool_use_id") == block["id"]
            )
            for block in messages[-2]["content"]
            if block["type"] == "tool_use"
        }
        for messages in (then, today)
    ]
    assert by_tool[0] == by_tool[1]
    ids = [
        {block["id"] for block in messages[-2]["content"] if block["type"] == "tool_use"}
        for messages in (then, today)
    ]
    assert ids[0].isdisjoint(ids[1])


def test_other_words_are_shown_line_by_line(arena: Cast, searched: Run, redo: Redo) -> None:
    replay = redo(searched, 6, Reply.text("Há dois lugares livres."))
    assert outcomes(replay) == [(6, "other_words")]
    diff = replay.turns[0]["text_diff"]
    assert "-Achei dois lugares." in diff
    assert "+Há dois lugares livres." in diff


def test_it_stops_where_other_arguments_are_given(
    arena: Cast, model: ScriptedModel, searched: Run, redo: Redo
) -> None:
    count = len(model.requests)
    replay = redo(searched, 2, Reply.tools(("search_events", {"city": "Recife"})))
    assert len(model.requests) == count + 1
    assert replay.outcome == "other_arguments"
    (difference,) = replay.turns[0]["differences"]
    assert difference["kind"] == "arguments"
    assert difference["fields"] == ["city", "query"]
    assert (difference["recorded"], difference["today"]) == ({"query": "Show"}, {"city": "Recife"})


@pytest.mark.parametrize(
    ("seq", "reply", "outcome", "kinds"),
    [
        (2, Reply.text("Não sei."), "answered", ["missing"]),
        (2, Reply.tools(("create_ticket", {})), "other_calls", ["missing", "new"]),
        (4, SEARCH, "other_calls", ["missing", "arguments"]),
        (6, Reply.tools(("search_events", {})), "called", ["new"]),
        (2, Reply.raw_tool("search_events", '{"query'), "other_arguments", ["arguments"]),
    ],
)
def test_it_stops_where_the_model_leaves_the_path(
    arena: Cast,
    searched: Run,
    redo: Redo,
    seq: int,
    reply: Reply,
    outcome: str,
    kinds: list[str],
) -> None:
    replay = redo(searched, seq, reply)
    assert (replay.state, replay.outcome) == ("finished", outcome)
    assert sorted(one["kind"] for one in replay.turns[0]["differences"]) == sorted(kinds)


def test_no_tool_runs_whatever_the_model_asks_for(
    arena: Cast, worker: Worker, model: ScriptedModel, redo: Redo
) -> None:
    run = holds_seats(arena, worker, model)
    before = everything(arena)
    seats = [str(pk) for pk in arena.seats.ids("B-A3", "B-A4")]
    arguments = {"event_id": str(arena.seats.event.pk), "seat_ids": seats}
    replay = redo(run, 1, Reply.tools(("hold_seats", arguments)), Reply.text("Reservei."))
    assert replay.outcome == "same_answer"
    others = arguments | {"seat_ids": [str(pk) for pk in arena.seats.ids("B-B1")]}
    assert redo(run, 1, Reply.tools(("hold_seats", others))).outcome == "other_arguments"
    assert everything(arena) == before


def test_what_was_offered_then_is_offered_even_if_it_is_gone(
    arena: Cast, model: ScriptedModel, searched: Run, redo: Redo
) -> None:
    Tenant.objects.filter(pk=arena.tenant.pk).update(name="Arena Nova")
    redo(searched, 6, Reply.text("Achei dois lugares."))
    assert "Arena Nova" not in str(model.requests[-1]["system"])


def test_messages_that_came_in_between_are_said_again(
    arena: Cast, worker: Worker, model: ScriptedModel, redo: Redo
) -> None:
    model.script([Reply.tools(("search_events", {})), Reply.text("Há um.")])
    run = arena.post("ana", "o que tem?")
    arena.post("ana", "e sábado?", run.conversation)  # joins the run before it is worked on
    worker.work(run)
    assert "input" in arena.kinds(run.pk)[1:]
    replay = redo(run, 1, Reply.tools(("search_events", {})), Reply.text("Há um."))
    assert replay.outcome == "same_answer"
    assert "e sábado?" in str(model.requests[-1]["messages"])


def test_it_is_paid_for_by_who_asked(arena: Cast, searched: Run, redo: Redo) -> None:
    replay = redo(searched, 1, SEARCH, seats_of(arena), Reply.text("Achei."))
    with arena.scope():
        entries = list(UsageEntry.objects.filter(run_ref=replay.pk))
        of_run = UsageEntry.objects.filter(run_ref=searched.pk).count()
    assert {entry.user_id for entry in entries} == {arena.user("ada").pk}
    assert (len(entries), of_run) == (3, 3)
    assert replay.cost_micros == sum(entry.cost_micros for entry in entries) > 0
    assert arena.run(searched.pk).cost_micros == searched.cost_micros


@pytest.mark.parametrize("limit", ["max_run_cost_micros", "max_day_cost_micros"])
def test_it_stops_when_nothing_is_left_to_spend(
    arena: Cast, model: ScriptedModel, searched: Run, redo: Redo, limit: str
) -> None:
    count = len(model.requests)
    with arena.scope():
        poor = Tier.objects.create(slug="poor", name="poor", model_alias="m", **{limit: 1})
        Membership.objects.filter(user=arena.user("ada")).update(tier=poor)
    replay = redo(searched, 1, SEARCH, seats_of(arena))
    assert (replay.state, replay.error["code"]) == ("failed", "budget_cost")
    assert outcomes(replay) == [(2, "same_calls")]  # what was paid for is kept
    assert len(model.requests) == count + 1


def test_a_model_that_is_away_or_refuses_fails_it(arena: Cast, searched: Run, redo: Redo) -> None:
    replay = redo(searched, 2, Reply.error(400, "invalid_request_error"))
    assert (replay.state, replay.error["code"]) == ("failed", "model_refused")
    again = redo(searched, 2, Reply.error(400, "invalid_request_error"))
    assert again.pk != replay.pk


def test_a_mistake_in_it_fails_it(arena: Cast, searched: Run, woken: list[UUID]) -> None:
    def broken(request: Any) -> Any:
        raise RuntimeError("?")

    replay = asked(arena, searched, 2)
    replay_work(tenant_id=searched.tenant_id, replay_id=replay.pk, ask=broken)
    assert fresh(arena, replay).state == ReplayState.FAILED
    replay_work(tenant_id=searched.tenant_id, replay_id=replay.pk, ask=broken)  # over: nothing


def test_one_is_under_way_at_a_time(arena: Cast, searched: Run, woken: list[UUID]) -> None:
    def one(_: int) -> UUID:
        try:
            return asked(arena, searched, 2).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(one, range(4)))
    assert len(found) == 1
    assert set(woken) == found
    with arena.scope():
        assert AuditRecord.objects.filter(action="agents.run.replayed").count() == 1
    assert asked(arena, searched, 4).pk not in found


def test_two_workers_do_not_both_ask(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run, woken: list[UUID]
) -> None:
    replay = asked(arena, searched, 6)
    gate = threading.Event()
    slow = Reply.text("Achei dois lugares.")
    model.script([Reply(blocks=slow.blocks, wait_for=gate)])
    count = len(model.requests)

    def work(_: int) -> None:
        try:
            replay_work(tenant_id=searched.tenant_id, replay_id=replay.pk, ask=worker.runtime.ask)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(work, n) for n in range(2)]
        next(as_completed(both, timeout=30))
        gate.set()
        for each in both:
            each.result(30)
    assert len(model.requests) == count + 1
    assert fresh(arena, replay).outcome == "same_answer"


def test_a_worker_that_ends_lets_go_of_the_model(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run, woken: list[UUID]
) -> None:
    replay = asked(arena, searched, 6)
    model.script([Reply.hang()])
    count = len(model.requests)

    def work() -> None:
        try:
            replay_work(tenant_id=searched.tenant_id, replay_id=replay.pk, ask=worker.runtime.ask)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    model.wait_for_requests(count + 1)
    worker.runtime.drain()
    thread.join(30)
    assert not thread.is_alive()
    found = fresh(arena, replay)
    assert (found.state, found.error["retryable"]) == ("failed", True)
    with pytest.raises(ModelUnavailable):
        worker.runtime.ask(None)


def test_the_task_works_on_it(
    arena: Cast,
    worker: Worker,
    model: ScriptedModel,
    searched: Run,
    woken: list[UUID],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_worker, "_runtime", worker.runtime)
    model.script([Reply.text("Achei dois lugares.")])
    replay = asked(arena, searched, 6)
    tasks.replay(str(searched.tenant_id), str(replay.pk))
    assert fresh(arena, replay).state == ReplayState.FINISHED


def test_what_a_crash_left_behind_is_found(arena: Cast, searched: Run, woken: list[UUID]) -> None:
    queued, running = asked(arena, searched, 2), asked(arena, searched, 4)
    young = asked(arena, searched, 6)
    long_ago = now() - timedelta(seconds=service.WORK_SECONDS + 1)
    with arena.scope():
        transition(
            Replay.objects.filter(pk=running.pk),
            REPLAY_MACHINE,
            ReplayState.RUNNING,
            started_at=long_ago,
        )
        Replay.objects.exclude(pk=young.pk).update(created_at=long_ago)
    again: list[UUID] = []
    service.sweep(lambda tenant_id, pk: again.append(pk))
    assert again == [queued.pk]
    found = fresh(arena, running)
    assert (found.state, found.error["code"]) == ("failed", "worker_lost")


def test_what_was_not_kept_is_not_made_up(arena: Cast, woken: list[UUID]) -> None:
    with arena.scope():
        old = old_run(arena)
    with pytest.raises(RecordIncomplete, match="2"):
        asked(arena, old, 1)


def test_a_model_that_is_gone_is_not_replaced_by_another(
    arena: Cast, searched: Run, woken: list[UUID]
) -> None:
    with arena.scope():
        Tier.objects.filter(model_alias=searched.model).update(model_alias="claude-next")
    with pytest.raises(ThingsChanged) as refused:
        asked(arena, searched, 2)
    assert refused.value.extra["changes"][0]["code"] == "model_gone"
    assert woken == []


def test_where_no_model_was_asked_nothing_is_asked(arena: Cast, searched: Run) -> None:
    with pytest.raises(NothingFollows):
        asked(arena, searched, 7)


def test_it_needs_the_right(arena: Cast, teatro: Cast, searched: Run, woken: list[UUID]) -> None:
    for name, error in (("ana", Forbidden), ("rita", Forbidden), ("fabio", NotFound)):
        with pytest.raises(error):
            asked(arena, searched, 2, by=name)
    replay = asked(arena, searched, 2)
    with arena.scope():
        assert replay_get(principal=arena.principal("ada"), replay_id=replay.pk) == replay
        with pytest.raises(Forbidden):
            replay_get(principal=arena.principal("rita"), replay_id=replay.pk)
    with teatro.scope(), pytest.raises(NotFound):
        replay_get(principal=teatro.principal("rui"), replay_id=replay.pk)


def test_the_database_knows_its_moves(arena: Cast, searched: Run, woken: list[UUID]) -> None:
    replay = asked(arena, searched, 2)
    with arena.scope(), pytest.raises(DatabaseError, match="cannot go"), transaction.atomic():
        Replay.objects.filter(pk=replay.pk).update(state="finished")


def test_so_many_at_once_that_threads_are_left_for_fans(
    arena: Cast, worker: Worker, searched: Run, woken: list[UUID]
) -> None:
    """A replay for which there is no place stays queued: the sweep hands it out again."""
    asked_now, rest = threading.Semaphore(0), threading.Event()

    def thinks(request: Any) -> Any:
        asked_now.release()
        assert rest.wait(30)
        return worker.runtime.ask(request)

    def works(replay: Replay) -> None:
        try:
            replay_work(tenant_id=replay.tenant_id, replay_id=replay.pk, ask=thinks)
        finally:
            connection.close()

    waiting = [asked(arena, searched, step) for step in (1, 4, 6)]
    places = service.REPLAYS_PER_PROCESS
    with ThreadPoolExecutor(places) as pool:
        for replay in waiting[:places]:
            pool.submit(works, replay)
        for _ in range(places):
            assert asked_now.acquire(timeout=30)
        for replay in waiting[places:]:
            works(replay)
        states = [fresh(arena, replay).state for replay in waiting]
        rest.set()
    assert states == ["running"] * places + ["queued"]
    replay_work(tenant_id=searched.tenant_id, replay_id=waiting[-1].pk, ask=worker.runtime.ask)
    assert fresh(arena, waiting[-1]).state != ReplayState.QUEUED

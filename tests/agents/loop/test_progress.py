"""Runs that go round in circles are told so, and then handed over; long honest work is not."""

from datetime import date, timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.loop.progress import NOTHING_NEW, STUCK_AT, TOLD_AT, Progress
from agents.models import RunState
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.tenancy.models import Tier
from boxoffice.ticketing.services.holds import hold_create
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results
from tests.support.worker import Worker
from tools.models import CallState, ToolCall

untimed = settings(deadline=None)
READ, WRITE = "search_events", "hold_seats"


def made(key: str, answer: Any = None, *, tool: str = READ, error: str = "") -> ToolCall:
    """A call that is over."""
    return ToolCall(
        tool=tool,
        args_hash=key,
        state=CallState.FAILED if error else CallState.SUCCEEDED,
        result=None if error else {"found": answer, "as_of": str(uuid4())},
        error={"code": error, "message": str(uuid4())} if error else None,
        reason_code="",
    )


def after(*turns: list[ToolCall]) -> Progress:
    """What is known after these turns."""
    progress = Progress()
    for turn in turns:
        progress.turn(turn)
    return progress


@untimed
@given(st.lists(st.tuples(st.text(max_size=3), st.integers(0, 3)), unique=True, max_size=60))
def test_what_was_not_seen_before_is_never_held_against_a_run(
    seen: list[tuple[str, int]],
) -> None:
    progress = after(*[[made(key, answer)] for key, answer in seen])
    assert progress.score == 0


@untimed
@given(
    cycle=st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
    error=st.sampled_from(["", "not_found"]),
    tool=st.sampled_from([READ, WRITE]),
    side_by_side=st.booleans(),
)
def test_any_circle_of_up_to_three_calls_is_told_and_then_stopped(
    cycle: list[str], error: str, tool: str, side_by_side: bool
) -> None:
    progress = Progress()
    turns = [cycle] if side_by_side else [[key] for key in cycle]
    told_at = stuck_at = 0
    for number in range(1, 13):
        turn = [made(key, key, tool=tool, error=error) for key in turns[number % len(turns)]]
        told_at = told_at or (number if any(map(progress.is_idle, turn)) else 0)
        stuck_at = stuck_at or (number if progress.is_stuck(turn) else 0)
        progress.turn(turn)
    assert 0 < told_at < stuck_at <= 9


def test_ids_that_are_new_each_time_do_not_hide_a_circle_of_a_write_and_its_inverse() -> None:
    progress = Progress()
    for number in range(20):
        progress.turn([made("these seats", number, tool=WRITE)])
        progress.turn([made(f"hold {number}", number, tool="release_hold")])
    assert progress.is_stuck([made("these seats", 0, tool=WRITE)])
    assert not progress.is_stuck([made("hold 99", 0, tool="release_hold")])


@untimed
@given(st.integers(1, 40), st.integers(0, 3))
def test_a_look_at_the_same_thing_now_and_then_is_forgiven(rounds: int, extra: int) -> None:
    progress = Progress()
    for number in range(rounds):
        progress.turn([made("status", "paid")])
        for step in range(4 + extra):
            progress.turn([made(f"{number}.{step}")])
    assert progress.score < TOLD_AT


@untimed
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), max_size=40), st.data())
def test_a_run_that_is_taken_up_again_knows_what_it_knew(
    seen: list[tuple[str, int]], data: st.DataObject
) -> None:
    turns = [[made(key, answer)] for key, answer in seen]
    at = data.draw(st.integers(0, len(turns)))
    resumed = after(*turns[:at])
    for turn in turns[at:]:
        resumed.turn(turn)
    whole = after(*turns)
    assert resumed.score == whole.score
    assert all(resumed.is_idle(made(key)) == whole.is_idle(made(key)) for key in "abcd")


def test_something_new_is_let_through_even_when_the_run_got_nowhere() -> None:
    progress = after(*[[made("a")]] * 20)
    assert progress.score >= STUCK_AT
    assert progress.is_idle(made("a"))
    assert not progress.is_idle(made("b"))
    assert not progress.is_stuck([made("a"), made("b")])


def test_a_model_that_goes_back_and_forth_is_told_and_handed_over(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    event = str(arena.seats.event.pk)
    circle = [
        ("search_events", {}),
        ("search_seats", {"event_id": event, "quantity": 2}),
    ]
    model.script([Reply.tools(circle[turn % 2]) for turn in range(9)])
    run = arena.post("ana", "procure")
    worker.work(run)
    calls = arena.calls(run.pk)
    assert [call.state for call in calls] == ["succeeded"] * 5 + ["denied"] * 3
    assert {call.reason_code for call in calls[5:7]} == {NOTHING_NEW}
    done = arena.run(run.pk)
    assert done.state == RunState.PARTIAL
    assert done.conversation.handoff_reason == "no_progress"
    (result,) = last_tool_results(model.requests[-1])
    assert data_of(result)["error"]["code"] == NOTHING_NEW


def test_a_model_that_heeds_what_it_is_told_answers(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.tools(("search_events", {})) for _ in range(5)] + [Reply.text("Achei um.")])
    run = arena.post("ana", "procure")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert [call.reason_code for call in arena.calls(run.pk)][4:] == [NOTHING_NEW]


@pytest.mark.parametrize("side_by_side", [1, 4])
def test_twenty_dates_one_after_another_are_honest_work(
    arena: Cast, worker: Worker, model: ScriptedModel, side_by_side: int
) -> None:
    with arena.scope():
        Tier.objects.update(
            max_steps=40, max_tokens_per_request=100_000, max_run_cost_micros=900_000
        )
    days = [str(date(2031, 1, 1) + timedelta(days=day)) for day in range(20)]
    calls = [("search_events", {"date_from": day, "date_to": day}) for day in days]
    turns = [calls[at : at + side_by_side] for at in range(0, len(calls), side_by_side)]
    model.script([*(Reply.tools(*turn) for turn in turns), Reply.text("Nada nesses dias.")])
    run = arena.post("ana", "procure em vinte dias")
    worker.work(run)
    assert arena.run(run.pk).conversation.handoff_reason == ""
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert {call.state for call in arena.calls(run.pk)} == {"succeeded"}


def test_a_run_that_waited_in_the_middle_of_its_circle_is_still_caught(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        hold = hold_create(
            event_id=arena.seats.event.pk,
            seat_ids=arena.seats.ids("B-A1"),
            user_id=arena.user("ana").pk,
        )
    look = Reply.tools(("search_events", {}))
    buy = Reply.tools(("place_order", {"hold_id": str(hold.pk)}))
    model.script([look] * 4 + [buy] + [look] * 5)
    run = arena.post("ana", "compre")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.WAITING
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        approvals.deny(request_id=request.pk, principal=arena.principal("ana"))
    worker.work(run)
    calls = arena.calls(run.pk)
    assert [call.tool for call in calls if call.reason_code == NOTHING_NEW] == ["search_events"] * 2
    assert arena.run(run.pk).conversation.handoff_reason == "no_progress"

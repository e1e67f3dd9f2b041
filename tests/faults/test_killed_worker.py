"""A worker dies by SIGKILL at every boundary of a run; another goes on, and nothing shows."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.models import Message, Run, RunState, Speaker, Step
from approvals import services as approvals
from approvals.models import ApprovalRequest
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results, user_texts
from tests.support.stack import Stack

RECOVERS_SECONDS = 10
POINTS = [
    "claimed",
    "model_step_open",
    "model_step_committed",
    "call_open",
    "call_committed",
    "results_open",
    "results_committed",
    "answer_open",
    "answer_committed",
]
GATE_POINTS = ["wait_open", "wait_committed", "call_open", "call_committed", "answer_open"]


@pytest.fixture
def crash_file(tmp_path: Path) -> Path:
    """Naming a crash point in this file arms it, for one process."""
    return tmp_path / "crash"


@pytest.fixture
def stack(arena: Cast, model: ScriptedModel, tmp_path: Path, crash_file: Path) -> Iterator[Stack]:
    """Three workers and the scheduler, on the scripted model."""
    env = {
        "ANTHROPIC_API_KEY": "scripted",
        "ANTHROPIC_BASE_URL": model.base_url,
        "BOXOFFICE_CRASH_FILE": str(crash_file),
        "LEASE_SECONDS": "3",
    }
    with Stack(home=tmp_path, workers=3, web=False, env=env) as live:
        yield live


def holds_two(arena: Cast, names: tuple[str, str]) -> Callable[[dict[str, Any]], Reply]:
    """A stateless script: hold two seats, then buy them when asked to, then say so."""
    seats = [str(pk) for pk in arena.seats.ids(*names)]
    event = str(arena.seats.event.pk)

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if not results:
            return Reply.tools(("hold_seats", {"event_id": event, "seat_ids": seats}))
        if results[0].get("status") == "active" and "compre" in user_texts(body)[-1]:
            return Reply.tools(("place_order", {"hold_id": results[0]["hold_id"]}))
        return Reply.text("Está feito, ana: os dois assentos são seus.")

    return answer


def until(arena: Cast, run: Run, *states: str, seconds: float = RECOVERS_SECONDS + 10) -> Run:
    """Wait until a run is in one of the states."""
    deadline = time.monotonic() + seconds
    while True:
        now = arena.run(run.pk)
        if now.state in states:
            return now
        if time.monotonic() > deadline:
            raise AssertionError(f"the run is {now.state} after {seconds} s: {arena.kinds(run.pk)}")
        time.sleep(0.05)


def revive(stack: Stack) -> None:
    """Start the workers that have died; the others go on meanwhile."""
    for name, process in list(stack.processes.items()):
        if process.poll() is not None:
            stack.kill(name)
            stack.begin(name)


def one_answer(arena: Cast, run: Run) -> None:
    """One message each, steps without a gap, a ledger that is final."""
    with arena.scope():
        assert Message.objects.filter(run=run, speaker=Speaker.ASSISTANT).count() == 1
        assert Message.objects.filter(run=run, speaker=Speaker.FAN).count() == 1
        steps = list(Step.objects.filter(run=run).order_by("seq"))
        assert [step.seq for step in steps] == list(range(1, len(steps) + 1))
    assert {call.state for call in arena.calls(run.pk)} == {"succeeded"}
    assert arena.answer(run.pk) == "Está feito, ana: os dois assentos são seus."


def hold_through(arena: Cast, stack: Stack, crash_file: Path, point: str) -> None:
    """A fan holds two seats while the worker dies at ``point``."""
    before = arena.counts()
    crash_file.write_text(point)
    run = arena.post("ana", f"reserve dois assentos ({point})")
    until(arena, run, RunState.SUCCEEDED)
    assert not crash_file.exists(), f"{point} was not reached"
    after = arena.counts()
    assert after["holds"] == before["holds"] + 1, point
    assert after["live_claims"] == before["live_claims"] + 2, point
    one_answer(arena, run)
    revive(stack)


def buy_through(arena: Cast, stack: Stack, crash_file: Path, point: str) -> None:
    """A fan confirms a purchase while the worker dies at ``point``."""
    before = arena.counts()
    before_decision = point.startswith("wait")
    if before_decision:
        crash_file.write_text(point)
    run = arena.post("ana", f"reserve e compre ({point})")
    until(arena, run, RunState.WAITING)
    if not before_decision:
        crash_file.write_text(point)
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        approvals.approve(request_id=request.pk, principal=arena.principal("ana"))
    until(arena, run, RunState.SUCCEEDED)
    assert not crash_file.exists(), f"{point} was not reached"
    after = arena.counts()
    assert after["orders"] == before["orders"] + 1, point
    assert after["live_claims"] == before["live_claims"] + 2, point
    one_answer(arena, run)
    with arena.scope():
        assert ApprovalRequest.objects.get(pk=request.pk).state == "executed"
    revive(stack)


def test_a_worker_may_die_at_every_point_of_a_run(
    arena: Cast, model: ScriptedModel, stack: Stack, crash_file: Path
) -> None:
    pairs = [
        (f"{section}-{row}{n}", f"{section}-{row}{n + 1}")
        for section in "PB"
        for row in "ABC"
        for n in (1, 3, 5)
    ]
    for point in POINTS:
        model.route(holds_two(arena, pairs.pop()))
        hold_through(arena, stack, crash_file, point)
    for point in GATE_POINTS:
        model.route(holds_two(arena, pairs.pop()))
        buy_through(arena, stack, crash_file, point)

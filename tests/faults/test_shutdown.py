"""A worker that is told to end gives its runs back, and another finishes them."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from agents.models import Message, Run, Speaker
from tests.agents.loop.test_loop import data_of
from tests.faults.fan import Fan
from tests.support.cast import Cast
from tests.support.scripted_model import (
    Reply,
    Route,
    ScriptedModel,
    last_tool_results,
    user_texts,
)
from tests.support.stack import GRACE_SECONDS, Stack

# A lease that is not given back holds its run for longer than this test waits.
LEASE_SECONDS = 120
STORY = " ".join(f"palavra{n}" for n in range(30)) + "."
RUNS = 8


@pytest.fixture(scope="module")
def stack(
    house: Cast, scripted: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The web, two workers and the scheduler, for all tests of the file."""
    env = {
        "ANTHROPIC_API_KEY": "scripted",
        "ANTHROPIC_BASE_URL": scripted.base_url,
        "LEASE_SECONDS": str(LEASE_SECONDS),
    }
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(home=home, workers=2, env=env) as live:
        yield live


def holds_then_tells(house: Cast, rest: threading.Event) -> Route:
    """ "A1 A2": holds the two seats, begins a story, and ends it when it may."""

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if results and not rest.is_set():
            return Reply.hang(after=3, text=STORY)
        if results:
            return Reply.text(f"{results[0]['status']}: {STORY}")
        seats = [str(pk) for pk in house.seats.ids(*user_texts(body)[-1].split())]
        event = str(house.seats.event.pk)
        return Reply.tools(("hold_seats", {"event_id": event, "seat_ids": seats}))

    return answer


def workers_of(house: Cast, stack: Stack, runs: list[str]) -> dict[str, list[str]]:
    """Which process works on which of the runs."""
    names = {str(process.pid): name for name, process in stack.processes.items()}
    found: dict[str, list[str]] = {}
    with house.scope():
        for run in Run.objects.filter(pk__in=runs, state="running"):
            _, pid, _ = run.lease_owner.rsplit(":", 2)
            found.setdefault(names[pid], []).append(str(run.pk))
    return found


def test_a_worker_that_is_told_to_end_gives_its_runs_to_another(
    house: Cast, stack: Stack, asked: ScriptedModel
) -> None:
    ana = Fan(house, stack, "ana")
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    pairs = [f"{s}-{row}{n} {s}-{row}{n + 1}" for s in "PB" for row in "AB" for n in (1, 3)]
    assert len(pairs) == RUNS
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        shown = ana.say(pairs[0], conversation)
        runs = [shown, *(ana.say(pair) for pair in pairs[1:])]
        page.until_text(shown, pieces=1)
        asked.wait_for_requests(2 * RUNS)
        ends = workers_of(house, stack, [shown])
        (name,) = ends
        given = workers_of(house, stack, runs)[name]

        rest.set()
        begun = time.monotonic()
        code = stack.terminate(name)
        assert code == 0, stack.log(name)[-2000:]
        assert time.monotonic() - begun < GRACE_SECONDS  # it was not killed in the end

        for run in given:
            ana.ended(run)
        whole = page.until_end(shown)
    assert whole.text == f"active: {STORY}"
    assert whole.resumed == 1
    with house.scope():
        assert Run.objects.filter(pk__in=given, state="succeeded", lease_epoch=2).count() == len(
            given
        )
        for run in given:
            assert house.answer(UUID(run)) == f"active: {STORY}"
            assert Message.objects.filter(run_id=run, speaker=Speaker.ASSISTANT).count() == 1
    assert house.counts()["holds"] == RUNS
    assert house.counts()["live_claims"] == 2 * RUNS

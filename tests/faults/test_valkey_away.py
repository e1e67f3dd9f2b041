"""Valkey goes, and comes back with or without its data; the database drops every connection."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis

from agents.models import Message, Run, RunState, Speaker, Step
from boxoffice.config.devstack import start_valkey
from boxoffice.config.devstack.process import RunningServer
from tests.agents.loop.test_loop import data_of
from tests.faults.fan import Fan
from tests.faults.invariants import violations
from tests.support.cast import Cast
from tests.support.scripted_model import (
    Reply,
    Route,
    ScriptedModel,
    last_tool_results,
    user_texts,
)
from tests.support.stack import GRACE_SECONDS, Stack, test_database_url

COMES_BACK_SECONDS = 10
# The name under which the database knows the stack's connections.
APPLICATION = "stack"
UNFINISHED = [RunState.QUEUED, RunState.RUNNING]
LONG = " ".join(f"palavra{n}" for n in range(40)) + "."


@dataclass
class Valkey:
    """A Valkey of this file's own, that may be killed."""

    home: Path
    server: RunningServer

    def kill(self) -> None:
        """SIGKILL: what was not on the disk is gone."""
        self.server.child.process.kill()
        self.server.stop()

    def client(self) -> redis.Redis:
        """A connection of the operator's."""
        return redis.Redis.from_url(self.server.url)

    def start(self, *, durable: bool) -> None:
        """Start it again at the same address, empty unless ``durable``."""
        url = self.server.url
        self.server = start_valkey(self.home, durable=durable)
        assert self.server.url == url


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """A durable Valkey."""
    home: Path = tmp_path_factory.mktemp("valkey")
    live = Valkey(home, start_valkey(home, durable=True))
    yield live
    live.server.stop()


@pytest.fixture(scope="module")
def stack(
    house: Cast,
    scripted: ScriptedModel,
    valkey: Valkey,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """The web, two workers and the scheduler on this file's Valkey."""
    env = {
        "ANTHROPIC_API_KEY": "scripted",
        "ANTHROPIC_BASE_URL": scripted.base_url,
        "REDIS_URL": valkey.server.url,
        "PGAPPNAME": APPLICATION,
    }
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(home=home, workers=2, env=env) as live:
        yield live


@pytest.fixture
def ana(house: Cast, stack: Stack) -> Fan:
    """A fan at the site's doors."""
    return Fan(house, stack, "ana")


def holds_then_tells(house: Cast, rest: threading.Event) -> Route:
    """ "A1 A2": holds the two seats of the stalls, and tells a long story when it may."""

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if results:
            return Reply.text(f"{results[0].get('status')}: {LONG}", token_delay=0.02).when(rest)
        said = user_texts(body)[-1].split()
        names = [name if "-" in name else f"P-{name}" for name in said]
        seats = [str(pk) for pk in house.seats.ids(*names)]
        event = str(house.seats.event.pk)
        call = ("hold_seats", {"event_id": event, "seat_ids": seats})
        return Reply.tools(call, text="Um momento. ", token_delay=0.01)

    return answer


def until(condition: Any, seconds: float = 30) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_telling(house: Cast, run: str) -> bool:
    """Whether a run has committed its hold, and asks the model again."""
    return house.kinds(UUID(run))[-1] == "results"


def all_is_whole(house: Cast, runs: list[str]) -> None:
    """Every run has ended well, once; two seats are held for each."""
    with house.scope():
        rows = Run.objects.filter(pk__in=runs)
        assert {row.state for row in rows} == {RunState.SUCCEEDED}
        for row in rows:
            assert house.answer(row.pk) == f"active: {LONG}"
            assert Message.objects.filter(run=row, speaker=Speaker.ASSISTANT).count() == 1
            assert Message.objects.filter(run=row, speaker=Speaker.FAN).count() == 1
            numbers = list(Step.objects.filter(run=row).order_by("seq").values_list("seq"))
            assert numbers == [(n,) for n in range(1, len(numbers) + 1)]
            assert [call.state for call in house.calls(row.pk)] == ["succeeded"]


@pytest.mark.parametrize(("row", "durable"), [("A", True), ("B", False)])
def test_nothing_is_lost_while_valkey_is_away(
    house: Cast, ana: Fan, valkey: Valkey, asked: ScriptedModel, row: str, durable: bool
) -> None:
    before = house.counts()
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        running = ana.say(f"{row}1 {row}2", conversation)
        page.until(lambda frame: frame["type"] == "tool.result")
        until(lambda: is_telling(house, running))

        valkey.kill()
        page.until_away(True)
        queued = [ana.say(f"{row}3 {row}4"), ana.say(f"{row}5 {row}6")]
        page.send(type="message", text=f"{row}7 {row}8", client_id="joins")
        joined = page.until_notice("message.accepted")
        assert joined["run"] == running  # it is taken up when the run comes to its end
        rest.set()
        until(lambda: house.run(UUID(running)).state == RunState.SUCCEEDED)

        valkey.start(durable=durable)
        for run in queued:
            ana.ended(run, COMES_BACK_SECONDS + 5)
        page.until_away(False)
        assert page.until_end(running).end is not None
    assert house.counts()["holds"] == before["holds"] + 4
    assert house.counts()["live_claims"] == before["live_claims"] + 8
    all_is_whole(house, queued)


def test_nothing_is_lost_when_valkey_is_emptied(
    house: Cast, ana: Fan, valkey: Valkey, asked: ScriptedModel
) -> None:
    """It goes on without streams, queues and bindings: nobody loses the connection to notice."""
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page, valkey.client() as client:
        shown = ana.say("B-A1 B-A2", conversation)
        page.until(lambda frame: frame["type"] == "tool.result")
        until(lambda: is_telling(house, shown))
        client.flushall()
        late = ana.say("B-A3 B-A4")
        until(lambda: is_telling(house, late))
        rest.set()
        page.until_text(shown, pieces=5)
        client.flushall()  # in the middle of the story
        ended = page.until_end(shown).end
        assert ended is not None
        assert ended["answer"] == f"active: {LONG}"
        ana.ended(late)
    all_is_whole(house, [shown, late])
    assert violations(house.tenant) == []


def test_nothing_is_lost_while_valkey_takes_nothing_more(
    house: Cast, stack: Stack, ana: Fan, valkey: Valkey, asked: ScriptedModel
) -> None:
    """A broker that is full refuses every write, and answers all the rest as always."""
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    pids = {name: stack.pid(name) for name in stack.processes}
    with ana.page(conversation) as page, valkey.client() as client:
        shown = ana.say("B-B1 B-B2", conversation)
        until(lambda: is_telling(house, shown))
        client.config_set("maxmemory", "1")  # byte
        try:
            queued = ana.say("B-B3 B-B4")
            page.send(type="message", text="B-B5 B-B6", client_id="joins")
            assert page.until_notice("message.accepted")["run"] == shown
            page.until_away(True)
            rest.set()
            until(lambda: house.run(UUID(shown)).state == RunState.SUCCEEDED)
        finally:
            client.config_set("maxmemory", "0")
        ana.ended(queued, COMES_BACK_SECONDS + 5)
        page.until_away(False)
        assert page.until_end(shown).end is not None
    all_is_whole(house, [queued])
    assert {name: stack.pid(name) for name in stack.processes} == pids
    assert all(process.poll() is None for process in stack.processes.values())
    assert violations(house.tenant) == []


def drop_connections() -> int:
    """The database drops every connection of the stack; how many those were."""
    with psycopg.connect(test_database_url(), autocommit=True) as mine:
        rows = mine.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
            [APPLICATION],
        ).fetchall()
    return len(rows)


def test_runs_and_pages_survive_the_loss_of_all_database_connections(
    house: Cast, ana: Fan, asked: ScriptedModel
) -> None:
    before = house.counts()
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        shown = ana.say("C1 C2", conversation)
        runs = [shown, ana.say("C3 C4"), ana.say("C5 C6")]
        until(lambda: all(is_telling(house, run) for run in runs))
        assert drop_connections() > 0
        late = ana.say("C7 C8")
        rest.set()
        page.until_text(shown, pieces=5)
        drop_connections()
        for run in (*runs, late):
            ana.ended(run)
            drop_connections()
        end = page.until_end(shown).end
        assert end is not None
        assert end["answer"] == f"active: {LONG}"
        page.send(type="message", text="C1 C2", client_id="again")
        accepted = page.until_notice("message.accepted")
        assert accepted["client_id"] == "again"
        ana.ended(str(accepted["run"]))  # she holds these seats already
    assert house.counts()["holds"] == before["holds"] + 4
    assert house.counts()["live_claims"] == before["live_claims"] + 8
    all_is_whole(house, [*runs, late])


def test_a_worker_that_is_told_to_end_does_so_while_valkey_is_away(
    house: Cast, ana: Fan, stack: Stack, valkey: Valkey, asked: ScriptedModel
) -> None:
    before = house.counts()
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    run = ana.say("B-C1 B-C2")
    until(lambda: is_telling(house, run))
    owner = house.run(UUID(run)).lease_owner
    (name,) = [one for one, process in stack.processes.items() if f":{process.pid}:" in owner]
    valkey.kill()
    begun = time.monotonic()
    assert stack.terminate(name) == 0, stack.log(name)[-2000:]
    assert time.monotonic() - begun < GRACE_SECONDS
    valkey.start(durable=True)
    rest.set()
    stack.start(name)
    ana.ended(run)
    assert house.counts()["holds"] == before["holds"] + 1
    all_is_whole(house, [run])

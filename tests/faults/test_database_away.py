"""PostgreSQL goes, for a moment or for a while: everybody is told, and all goes on by itself."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from django.db import connection
from websockets.exceptions import InvalidStatus

from agents.models import RunState
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
from tests.support.servers import servers
from tests.support.stack import Stack

COMES_BACK_SECONDS = 10
# What a loaded machine may take besides.
SLACK_SECONDS = 20
LONG = " ".join(f"palavra{n}" for n in range(30)) + "."


@pytest.fixture(scope="module")
def stack(
    house: Cast, scripted: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The web, two workers and the scheduler."""
    env = {"ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": scripted.base_url}
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(home=home, workers=2, env=env) as live:
        yield live


@pytest.fixture
def ana(house: Cast, stack: Stack) -> Fan:
    """A fan at the site's doors."""
    return Fan(house, stack, "ana")


@pytest.fixture
def away() -> Iterator[threading.Event]:
    """Whatever a test does, the database is back after it. Set while it is away."""
    is_away = threading.Event()
    yield is_away
    if is_away.is_set():
        servers.postgres_start()


def holds_then_tells(house: Cast, rest: threading.Event) -> Route:
    """ "A1 A2": holds the two seats, and tells a story when it may."""

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if results:
            return Reply.text(f"{results[0].get('status')}: {LONG}", token_delay=0.01).when(rest)
        names = [f"P-{name}" for name in user_texts(body)[-1].split()]
        seats = [str(pk) for pk in house.seats.ids(*names)]
        event = str(house.seats.event.pk)
        return Reply.tools(("hold_seats", {"event_id": event, "seat_ids": seats}), text="Já. ")

    return answer


def goes() -> None:
    """PostgreSQL goes; this process itself holds no connection."""
    connection.close()
    servers.postgres_stop()


def ended_well(ana: Fan, run: str) -> None:
    """The run comes to its answer, soon."""
    done = ana.ended(run, COMES_BACK_SECONDS + SLACK_SECONDS)
    assert (done["state"], done["answer"]) == (RunState.SUCCEEDED, f"active: {LONG}")


def test_runs_go_on_after_a_restart(house: Cast, ana: Fan, asked: ScriptedModel) -> None:
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        shown = ana.say("A1 A2", conversation)
        runs = [shown, ana.say("A3 A4"), ana.say("A5 A6")]
        asked.wait_for_requests(2 * len(runs))  # all have held, and wait for the rest
        goes()
        servers.postgres_start()
        late = ana.say("A7 A8")
        rest.set()
        page.until_text(shown, pieces=3)
        goes()  # in the middle of the stories
        servers.postgres_start()
        for run in (*runs, late):
            ended_well(ana, run)
        assert page.until_end(shown).text.endswith(LONG)
    assert violations(house.tenant) == []


def test_everybody_is_told_while_it_is_away(
    house: Cast, stack: Stack, ana: Fan, asked: ScriptedModel, away: threading.Event
) -> None:
    before = house.counts()["live_claims"]
    rest = threading.Event()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        running = ana.say("B1 B2", conversation)
        asked.wait_for_requests(2)
        goes()
        away.set()

        assert httpx2.get(f"{stack.url}/livez").status_code == 200
        assert httpx2.get(f"{stack.url}/readyz", timeout=30).status_code == 503
        for path in (f"runs/{running}/", "conversations/"):
            is_a_problem(ana.answer(path))
        shows_a_page(stack)
        with pytest.raises(InvalidStatus):
            ana.page(conversation)

        page.send(type="message", text="B3 B4", client_id="kept")
        refused = page.until(lambda frame: frame.get("client_id") == "kept")
        assert refused["code"] == "database_unavailable"
        assert "Traceback" not in refused["message"]
        rest.set()

        servers.postgres_start()
        away.clear()
        page.until_notice("database.available", COMES_BACK_SECONDS + SLACK_SECONDS)
        page.send(type="message", text="B3 B4", client_id="kept")
        accepted = page.until_notice("message.accepted")
        page.send(type="message", text="B3 B4", client_id="kept")
        assert page.until_notice("message.accepted")["message"] == accepted["message"]
        for run in {running, str(accepted["run"])}:
            assert ana.ended(run, COMES_BACK_SECONDS + SLACK_SECONDS)["state"] == "succeeded"
    assert house.counts()["live_claims"] == before + 4
    assert violations(house.tenant) == []


def is_a_problem(answer: httpx2.Response) -> None:
    """503 as problem details, which say when to ask again."""
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("application/problem+json")
    assert int(answer.headers["retry-after"]) <= COMES_BACK_SECONDS
    assert answer.json()["code"] == "database_unavailable"
    assert "Traceback" not in answer.text
    assert "psycopg" not in answer.text


def shows_a_page(stack: Stack) -> None:
    """A person sees a page that asks again by itself."""
    for path in ("/", "/t/arena/"):
        answer = httpx2.get(f"{stack.url}{path}", headers={"Accept": "text/html"}, timeout=30)
        assert answer.status_code == 503, path
        assert 'http-equiv="refresh"' in answer.text
        assert "Traceback" not in answer.text
        assert "OperationalError" not in answer.text


@pytest.mark.long
def test_a_long_absence_is_over_at_once(
    house: Cast, ana: Fan, asked: ScriptedModel, away: threading.Event
) -> None:
    """However long it was: nobody waits ever longer between two looks."""
    rest = threading.Event()
    rest.set()
    asked.route(holds_then_tells(house, rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        page.send(type="message", text="C1 C2", client_id="before")
        run = str(page.until_notice("message.accepted")["run"])
        goes()
        away.set()
        page.until(lambda frame: frame.get("code") == "database_unavailable")
        deadline = time.monotonic() + 15  # three doublings of the pool's own pause
        while time.monotonic() < deadline:
            is_a_problem(ana.answer("conversations/"))
        servers.postgres_start()
        away.clear()
        page.until_notice("database.available", COMES_BACK_SECONDS + SLACK_SECONDS)
        ended_well(ana, ana.say("C3 C4"))
        ended_well(ana, run)
    assert violations(house.tenant) == []

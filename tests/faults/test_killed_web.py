"""The web process or a worker dies in the middle of an answer: the page shows it whole, once."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from websockets.exceptions import ConnectionClosed

from agents.models import Message, Speaker
from tests.faults.fan import Fan, Page, Shown
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, Route, ScriptedModel, last_tool_results
from tests.support.stack import Stack

FIRST = " ".join(f"primeiro{n}" for n in range(60)) + ". "
SECOND = " ".join(f"segundo{n}" for n in range(60)) + "."


@pytest.fixture(scope="module")
def stack(
    house: Cast, scripted: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The web, two workers and the scheduler, for all tests of the file."""
    env = {"ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": scripted.base_url}
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(home=home, workers=2, env=env) as live:
        yield live


@pytest.fixture
def ana(house: Cast, stack: Stack) -> Fan:
    """A fan at the site's doors; all that an earlier test has killed is back."""
    for name in {"web", "worker0", "worker1"} - stack.processes.keys():
        stack.start(name)
    return Fan(house, stack, "ana")


def two_parts(rest: threading.Event) -> Route:
    """Says the first part word by word, looks something up, and says the rest when it may."""

    def answer(body: dict[str, Any]) -> Reply:
        if last_tool_results(body):
            return Reply.text(SECOND, token_delay=0.01).when(rest)
        return Reply.tools(("search_events", {}), text=FIRST, token_delay=0.03)

    return answer


def loses_its_socket(page: Page) -> None:
    """Whatever was under way still comes in; then the socket is gone."""
    with pytest.raises(ConnectionClosed):
        while True:
            page.next(10)


def shows_all_once(shown: Shown) -> None:
    """Every character once, no event twice, none left out."""
    assert shown.text == FIRST + SECOND
    assert shown.numbers == list(range(1, len(shown.numbers) + 1))
    assert shown.end is not None
    assert (shown.end["state"], shown.end["answer"]) == ("succeeded", SECOND)


def test_a_page_shows_every_character_once_after_the_web_process_was_killed(
    ana: Fan, stack: Stack, asked: ScriptedModel
) -> None:
    rest = threading.Event()
    asked.route(two_parts(rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        page.send(type="message", text="conte tudo", client_id="1")
        run = str(page.until_notice("message.accepted")["run"])
        before = page.until_text(run, pieces=3)
        stack.kill("web")
        loses_its_socket(page)
        assert before
        assert not page.runs[run].said  # it was in the middle of a sentence
        stack.start("web")

        ana.page(conversation, resumes=page)
        with ana.page(conversation) as second_tab:
            rest.set()
            shows_all_once(page.until_end(run))
            shows_all_once(second_tab.until_end(run))
    assert ana.ended(run)["answer"] == SECOND
    events = ana.get(f"runs/{run}/events/?after=0")
    again = Shown()
    for event in events:
        again.take(event)
    shows_all_once(again)


def test_an_answer_that_ended_while_the_web_was_away_is_shown_to_its_end(
    house: Cast, ana: Fan, stack: Stack, asked: ScriptedModel
) -> None:
    rest = threading.Event()
    asked.route(two_parts(rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        run = ana.say("conte tudo", conversation)
        page.until_text(run, pieces=3)
        stack.kill("web")
        loses_its_socket(page)
        rest.set()
        ends_without_the_web(house, run)
        stack.start("web")
        ana.page(conversation, resumes=page)
        shows_all_once(page.until_end(run))


def ends_without_the_web(house: Cast, run: str) -> None:
    deadline = time.monotonic() + 30
    while house.run(UUID(run)).state != "succeeded":
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_page_drops_what_a_killed_worker_had_not_committed(
    house: Cast, ana: Fan, stack: Stack, asked: ScriptedModel
) -> None:
    rest = threading.Event()
    rest.set()
    asked.route(two_parts(rest))
    conversation = ana.conversation()
    with ana.page(conversation) as page:
        run = ana.say("conte tudo", conversation)
        page.until_text(run, pieces=3)
        stack.kill(worker_of(house, stack, run))
        assert not page.runs[run].said
        shown = page.until_end(run)
        assert shown.resumed == 1
        shows_all_once(shown)
        with ana.page(conversation) as late:
            late.send(type="resume", after={run: 0})
            shows_all_once(late.until_end(run))
    with house.scope():
        assert Message.objects.filter(run_id=run, speaker=Speaker.ASSISTANT).count() == 1
    assert house.run(UUID(run)).lease_epoch == 2


def worker_of(house: Cast, stack: Stack, run: str) -> str:
    """The name of the process that works on a run."""
    owner = house.run(UUID(run)).lease_owner
    (name,) = [one for one, process in stack.processes.items() if f":{process.pid}:" in owner]
    return name

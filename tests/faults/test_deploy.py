"""A deploy, one process after the other, and workers that are told to end at a bad moment."""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import psycopg
import pytest
from websockets.exceptions import ConnectionClosed

from agents.loop.worker import ENDED_BY_FORCE
from agents.models import Message, Run, RunState, Speaker, Step
from boxoffice.tenancy.models import Tenant
from boxoffice.ticketing.models import SupportTicket
from tests.agents.loop.test_loop import data_of
from tests.faults.fan import Fan, Page
from tests.support.cast import Cast
from tests.support.scripted_model import (
    Reply,
    Route,
    ScriptedModel,
    last_tool_results,
    user_texts,
)
from tests.support.stack import CHECKOUT, GRACE_SECONDS, Stack, test_database_url

CONVERSATIONS = 100
PAGES = 4
# None of them opens more tickets in a minute than a fan may.
FANS = 16
GRACE = 4
LEASE_SECONDS = 3
STORY = " ".join(f"palavra{n}" for n in range(12)) + "."
WARM = "Warm shutdown"
GIVE_UP_SECONDS = 60


@pytest.fixture(scope="module")
def release_before(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The code that is deployed over: ``--from-release COMMIT``, else the same as today's."""
    commit = request.config.getoption("--from-release")
    if commit is None:
        yield CHECKOUT
        return
    there = tmp_path_factory.mktemp("before") / "checkout"
    git = ["git", "-C", str(CHECKOUT), "worktree"]
    subprocess.run([*git, "add", "--detach", str(there), commit], check=True)
    yield there
    subprocess.run([*git, "remove", "--force", str(there)], check=True)


@pytest.fixture(scope="module")
def stack(
    house: Cast,
    scripted: ScriptedModel,
    release_before: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """The web, two workers and the scheduler, for all tests of the file."""
    env = {
        "ANTHROPIC_API_KEY": "scripted",
        "ANTHROPIC_BASE_URL": scripted.base_url,
        "LEASE_SECONDS": str(LEASE_SECONDS),
        "SHUTDOWN_GRACE_SECONDS": str(GRACE),
        "RUNS_PER_PERSON": "1000",
    }
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(
        home=home,
        workers=2,
        concurrency=CONVERSATIONS + 20,
        env=env,
        checkout=release_before,
    ) as live:
        yield live


@pytest.fixture
def ana(house: Cast, stack: Stack) -> Fan:
    """A fan at the site's doors; all that an earlier test has ended is back."""
    for name in {"web", "worker0", "worker1"} - stack.processes.keys():
        stack.start(name)
    return Fan(house, stack, "ana")


def writes_then_tells(rest: threading.Event) -> Route:
    """Opens a ticket of the name that the fan gives, and tells of it when it may."""

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if results:
            return Reply.text(f"{results[0].get('status')}: {STORY}").when(rest)
        call = ("create_ticket", {"subject": user_texts(body)[-1], "body": "Favor ler."})
        return Reply.tools(call, text="Um momento. ")

    return answer


def until(condition: Any) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ends_in_time(stack: Stack, name: str) -> int:
    """SIGTERM, and the exit code; it was not killed in the end."""
    begun = time.monotonic()
    code = stack.terminate(name)
    assert time.monotonic() - begun < GRACE_SECONDS
    assert code != -signal.SIGKILL
    return code


def all_is_whole(house: Cast, runs: list[str]) -> None:
    """Each run has ended well: one answer, one ticket, steps without a gap."""
    with house.scope():
        rows = list(Run.objects.filter(pk__in=runs))
        assert {row.state for row in rows} == {RunState.SUCCEEDED}
        for row in rows:
            assert house.answer(row.pk) == f"open: {STORY}"
            assert Message.objects.filter(run=row, speaker=Speaker.FAN).count() == 1
            numbers = list(Step.objects.filter(run=row).order_by("seq").values_list("seq"))
            assert numbers == [(n,) for n in range(1, len(numbers) + 1)]
            assert [call.state for call in house.calls(row.pk)] == ["succeeded"]


def tickets(house: Cast, prefix: str) -> list[str]:
    with house.scope():
        rows = SupportTicket.objects.filter(subject__startswith=prefix)
        return sorted(rows.values_list("subject", flat=True))


def loses_its_socket(page: Page) -> None:
    """The page is told to come back, not that it may not."""
    with pytest.raises(ConnectionClosed) as lost:
        while True:
            page.next(GRACE_SECONDS)
    assert lost.value.rcvd is None or lost.value.rcvd.code in {1001, 1012}


def told(ana: Fan, run: str, after: int = 0) -> Iterator[int]:
    """The numbers of a run's events as a program hears them, until the server ends the stream."""
    path = f"{ana.stack.url}/t/{ana.slug}/api/v1/runs/{run}/events/?after={after}"
    headers = ana.headers | {"Accept": "text/event-stream"}
    try:
        with httpx2.stream("GET", path, headers=headers, timeout=GIVE_UP_SECONDS) as answer:
            for line in answer.iter_lines():
                if line.startswith("id: "):
                    yield int(line.removeprefix("id: "))
    except httpx2.TransportError:
        return


def test_a_deploy_during_a_hundred_conversations_loses_nothing(
    house: Cast, stack: Stack, ana: Fan, asked: ScriptedModel
) -> None:
    Tenant.objects.filter(pk=house.tenant.pk).update(max_concurrent_runs=2 * CONVERSATIONS)
    rest = threading.Event()
    asked.route(writes_then_tells(rest))
    with ExitStack() as open_pages:
        conversations = [ana.conversation() for _ in range(PAGES)]
        pages = [open_pages.enter_context(ana.page(one)) for one in conversations]
        shown = [ana.say(f"deploy {n:03d}", one) for n, one in enumerate(conversations)]
        fans = cycle(house.crowd(FANS))
        rest_of = [house.post(next(fans), f"deploy {n:03d}") for n in range(PAGES, CONVERSATIONS)]
        runs = [*shown, *(str(run.pk) for run in rest_of)]
        asked.wait_for_requests(2 * CONVERSATIONS, timeout=GIVE_UP_SECONDS)

        stack.checkout = CHECKOUT
        for name in ("worker0", "worker1"):
            assert ends_in_time(stack, name) == 0, stack.log(name)[-2000:]
            stack.start(name)
            queued_at_first(house, runs)
        heard = told(ana, shown[0])
        numbers = [next(heard)]
        ends_in_time(stack, "web")
        for page in pages:
            loses_its_socket(page)
        numbers += heard  # the stream has ended, the program comes back
        stack.start("web")
        for page, conversation in zip(pages, conversations, strict=True):
            ana.page(conversation, resumes=page)

        rest.set()
        for page, run in zip(pages, shown, strict=True):
            whole = page.until_end(run, GIVE_UP_SECONDS)
            assert whole.text == f"Um momento. open: {STORY}"
            assert whole.end is not None
            assert whole.end["answer"] == f"open: {STORY}"
        numbers += told(ana, shown[0], after=numbers[-1])
        assert numbers == list(range(1, numbers[-1] + 1))
    with house.scope():
        until(lambda: not Run.objects.filter(pk__in=runs, finished_at=None).exists())
        assert not Run.objects.filter(pk__in=runs, lease_epoch__lt=2).exists()
    all_is_whole(house, runs)
    assert tickets(house, "deploy") == [f"deploy {n:03d}" for n in range(CONVERSATIONS)]


def queued_at_first(house: Cast, runs: list[str]) -> None:
    """All that was given back is at work again."""
    with house.scope():
        mine = Run.objects.filter(pk__in=runs)
        until(lambda: mine.filter(state=RunState.RUNNING).count() == len(runs))


@pytest.fixture
def tickets_held() -> Iterator[psycopg.Connection[Any]]:
    """Nobody can open a ticket until this connection ends its transaction."""
    with closing(psycopg.connect(test_database_url())) as mine:
        mine.execute("LOCK TABLE ticketing_supportticket IN EXCLUSIVE MODE")
        yield mine


def writing(house: Cast, stack: Stack, run: str) -> str:
    """The worker that is in the middle of the run's write."""
    waits = (
        "SELECT count(*) FROM pg_locks "
        "WHERE relation = 'ticketing_supportticket'::regclass AND NOT granted"
    )
    with psycopg.connect(test_database_url(), autocommit=True) as mine:
        until(lambda: mine.execute(waits).fetchone() == (1,))
    owner = house.run(UUID(run)).lease_owner
    (name,) = [one for one, process in stack.processes.items() if f":{process.pid}:" in owner]
    return name


@pytest.mark.parametrize("signals", [1, 2])
def test_a_write_in_the_middle_is_finished_first(
    house: Cast,
    stack: Stack,
    ana: Fan,
    asked: ScriptedModel,
    tickets_held: psycopg.Connection[Any],
    signals: int,
) -> None:
    rest = threading.Event()
    rest.set()
    asked.route(writes_then_tells(rest))
    run = ana.say(f"middle {signals}")
    name = writing(house, stack, run)
    for number in range(1, signals + 1):
        os.kill(stack.pid(name), signal.SIGTERM)
        until(lambda count=number: stack.log(name).count(WARM) >= count)
    assert stack.processes[name].poll() is None
    tickets_held.rollback()
    assert stack.processes.pop(name).wait(GRACE_SECONDS) == 0, stack.log(name)[-2000:]
    ana.ended(run)
    all_is_whole(house, [run])
    assert tickets(house, f"middle {signals}") == [f"middle {signals}"]
    assert house.run(UUID(run)).lease_epoch == 2


def test_a_worker_whose_grace_is_over_ends_and_its_lease_runs_out(
    house: Cast,
    stack: Stack,
    ana: Fan,
    asked: ScriptedModel,
    tickets_held: psycopg.Connection[Any],
) -> None:
    rest = threading.Event()
    rest.set()
    asked.route(writes_then_tells(rest))
    run = ana.say("hangs")
    name = writing(house, stack, run)
    assert ends_in_time(stack, name) == ENDED_BY_FORCE
    assert house.calls(UUID(run))[0].state != "succeeded"
    tickets_held.rollback()
    ana.ended(run)
    all_is_whole(house, [run])
    assert tickets(house, "hangs") == ["hangs"]
    assert house.run(UUID(run)).lease_epoch >= 2

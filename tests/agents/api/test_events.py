"""The events of a run: as a list, and as a stream that ends with the run."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import UUID

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient

from agents import stream
from agents.api import events
from agents.loop.events import run_finished, text_delta
from agents.models import RUN_MACHINE, Message, Run, RunState, Speaker
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from tests.agents.api.conftest import Caller, assert_problem
from tests.support.cast import Cast, make_cast


def publish(run_id: str, *texts: str, is_end: bool = False) -> None:
    told = [text_delta(text) for text in texts]
    if is_end:
        told.append(run_finished(RunState.SUCCEEDED, "".join(texts)))
    assert stream.publish(run_id=UUID(run_id), epoch=1, floor=0, events=told) > 0


def finish(cast: Cast, run_id: str, answer: str) -> None:
    with cast.scope():
        runs = Run.objects.filter(pk=run_id)
        transition(runs, RUN_MACHINE, RunState.RUNNING, lease_until=now())
        transition(runs, RUN_MACHINE, RunState.SUCCEEDED, finished_at=now())
        run = runs.get()
        Message.objects.create(
            conversation_id=run.conversation_id, run=run, speaker=Speaker.ASSISTANT, text=answer
        )


def test_the_list_holds_what_follows_a_number(ana: Caller) -> None:
    run_id = ana.say("oi")["run"]
    assert ana.get(f"runs/{run_id}/events/").json() == []
    publish(run_id, "Bom ", "dia")
    assert ana.get(f"runs/{run_id}/events/").json() == [
        {"run": run_id, "seq": 1, "type": "text.delta", "text": "Bom "},
        {"run": run_id, "seq": 2, "type": "text.delta", "text": "dia"},
    ]
    assert [row["seq"] for row in ana.get(f"runs/{run_id}/events/?after=1").json()] == [2]
    assert ana.get(f"runs/{run_id}/events/?after=2").json() == []


def test_the_list_of_a_run_that_is_over_ends_with_its_end(arena: Cast, ana: Caller) -> None:
    run_id = ana.say("oi")["run"]
    finish(arena, run_id, "Bom dia")
    (end,) = ana.get(f"runs/{run_id}/events/").json()
    assert (end["type"], end["state"], end["answer"]) == ("run.finished", "succeeded", "Bom dia")


def test_an_error_of_a_stream_is_a_problem(ana: Caller, fabio: Caller) -> None:
    path = f"runs/{ana.say('oi')['run']}/events/"
    assert_problem(fabio.get(path, Accept="text/event-stream"), 404)
    assert_problem(ana.get(f"{path}?after=x", Accept="text/event-stream"), 422)


class Listener:
    """An open event stream."""

    def __init__(self, response: Any) -> None:
        assert response.status_code == 200
        assert response["Content-Type"].startswith("text/event-stream")
        self._chunks: AsyncIterator[bytes] = aiter(response.streaming_content)

    async def next(self) -> dict[str, Any] | None:
        """The next event; comments are passed over, the end is ``None``."""
        async for chunk in self._chunks:
            fields = dict(
                line.split(": ", 1) for line in chunk.decode().splitlines() if ": " in line
            )
            if "data" in fields:
                event: dict[str, Any] = json.loads(fields["data"])
                assert (fields["id"], fields["event"]) == (str(event["seq"]), event["type"])
                return event
        return None

    async def comment(self) -> str:
        """The next piece, which is a comment."""
        chunk = (await anext(self._chunks)).decode()
        assert chunk.startswith(":")
        return chunk


@pytest.fixture
def live(transactional_db: None) -> Iterator[Cast]:
    yield make_cast("arena")


@pytest.fixture
def run_id(live: Cast, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("agents.tasks.hand_out", lambda **kwargs: None)
    return Caller(live, "ana").say("oi")["run"]


async def listen(cast: Cast, run_id: str, *, after: int = 0, **headers: str) -> Listener:
    token = await sync_to_async(cast.token)("ana")
    response = await AsyncClient().get(
        f"/t/arena/api/v1/runs/{run_id}/events/?after={after}",
        headers={"Authorization": f"Bearer {token}", "Accept": "text/event-stream"} | headers,
    )
    return Listener(response)


async def test_a_stream_tells_what_was_and_what_comes_each_once(live: Cast, run_id: str) -> None:
    await sync_to_async(publish)(run_id, "um ")
    listener = await listen(live, run_id)
    told = [await listener.next()]
    await sync_to_async(publish)(run_id, "dois ", "três", is_end=True)
    while (event := await listener.next()) is not None:
        told.append(event)
    assert [event["seq"] for event in told if event] == [1, 2, 3, 4]
    assert [event["type"] for event in told if event][-1] == "run.finished"


async def test_a_stream_goes_on_where_the_client_was(live: Cast, run_id: str) -> None:
    await sync_to_async(publish)(run_id, "um ", "dois ", is_end=True)
    listener = await listen(live, run_id, after=2)
    event = await listener.next()
    assert event is not None
    assert (event["seq"], event["type"]) == (3, "run.finished")
    assert await listener.next() is None


async def test_a_browser_comes_back_with_its_last_event(live: Cast, run_id: str) -> None:
    await sync_to_async(publish)(run_id, "um ", is_end=True)
    token = await sync_to_async(live.token)("ana")
    response = await AsyncClient().get(
        f"/t/arena/api/v1/runs/{run_id}/events/",
        headers={
            "Authorization": f"Bearer {token}",
            "Accept": "text/event-stream",
            "Last-Event-ID": "1",
        },
    )
    event = await Listener(response).next()
    assert event is not None
    assert event["seq"] == 2


async def test_a_stream_without_news_is_kept_alive(
    live: Cast, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEEP_ALIVE_SECONDS", 0.05)
    listener = await listen(live, run_id)
    await anext(listener._chunks)  # the reconnection time
    assert await listener.comment() == ": keep-alive\n\n"
    assert await listener.comment() == ": keep-alive\n\n"
    await sync_to_async(publish)(run_id, "oi")
    event = await listener.next()
    assert event is not None
    assert event["text"] == "oi"


async def test_a_stream_ends_although_its_last_event_was_lost(
    live: Cast, run_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "GRACE_SECONDS", 0.05)
    await sync_to_async(publish)(run_id, "Bom ")
    await sync_to_async(finish)(live, run_id, "Bom dia")
    listener = await listen(live, run_id)
    first, end = await listener.next(), await listener.next()
    assert first is not None
    assert end is not None
    assert (end["type"], end["answer"]) == ("run.finished", "Bom dia")
    assert end["seq"] > first["seq"]
    assert await listener.next() is None

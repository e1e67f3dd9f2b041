"""Numbers, order and fencing of a run's events, on a real Valkey."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest
import redis.asyncio
from django.conf import settings

from agents.stream import Publisher, Reader, Subscription, publish, stream_key


@pytest.fixture
async def publisher() -> AsyncIterator[Publisher]:
    live = Publisher()
    yield live
    await live.close()


@pytest.fixture
async def reader() -> AsyncIterator[Reader]:
    live = Reader()
    yield live
    await live.close()


async def take(subscription: Subscription, count: int) -> list[dict[str, object]]:
    async with asyncio.timeout(10):
        return [await subscription.queue.get() for _ in range(count)]


def text(events: list[dict[str, object]]) -> str:
    return "".join(str(event["text"]) for event in events)


async def test_neighbouring_text_is_one_event_and_numbers_have_no_gap(
    publisher: Publisher,
) -> None:
    channel = publisher.open(run_id=uuid4(), epoch=1, floor=0)
    for word in ("um ", "dois "):
        publisher.send(channel, {"type": "text.delta", "text": word})
    publisher.send(channel, {"type": "step.committed", "step": 2, "kind": "model"})
    await publisher.flush()
    assert channel.last_seq == 2


async def test_a_subscriber_gets_what_was_there_and_what_comes_each_once(
    publisher: Publisher, reader: Reader
) -> None:
    run_id = uuid4()
    channel = publisher.open(run_id=run_id, epoch=1, floor=0)
    publisher.send(channel, {"type": "text.delta", "text": "a"})
    await publisher.flush()
    async with reader.subscribe(run_id, 0) as early:
        for letter in "bcdefgh":
            publisher.send(channel, {"type": "text.delta", "text": letter})
            await publisher.flush()
        events = await take(early, 8)
        assert text(events) == "abcdefgh"
        assert [event["seq"] for event in events] == list(range(1, 9))
        async with reader.subscribe(run_id, 5) as late:
            publisher.send(channel, {"type": "text.delta", "text": "i"})
            await publisher.flush()
            assert text(await take(late, 4)) == "fghi"
        assert text(await take(early, 1)) == "i"


async def test_many_subscribers_while_events_flow_miss_nothing(
    publisher: Publisher, reader: Reader
) -> None:
    run_id = uuid4()
    channel = publisher.open(run_id=run_id, epoch=1, floor=0)

    async def produce() -> None:
        for number in range(200):
            publisher.send(channel, {"type": "text.delta", "text": f"{number},"})
            await publisher.flush()

    async def consume(delay: float) -> str:
        await asyncio.sleep(delay)
        said = ""
        async with reader.subscribe(run_id, 0) as subscription:
            while not said.endswith("199,"):
                said += text(await take(subscription, 1))
        return said

    _, *heard = await asyncio.gather(produce(), *(consume(n / 200) for n in range(20)))
    whole = "".join(f"{number}," for number in range(200))
    assert heard == [whole] * 20


async def test_a_worker_whose_lease_is_over_is_refused_by_the_server(
    publisher: Publisher,
) -> None:
    run_id = uuid4()
    old = publisher.open(run_id=run_id, epoch=1, floor=0)
    publisher.send(old, {"type": "text.delta", "text": "old"})
    await publisher.flush()
    new = publisher.open(run_id=run_id, epoch=2, floor=0)
    publisher.send(new, {"type": "run.started", "epoch": 2, "resumed": True})
    await publisher.flush()
    publisher.send(old, {"type": "text.delta", "text": "too late"})
    await publisher.flush()
    assert new.last_seq == 2
    assert old.is_taken_over
    client = redis.asyncio.Redis.from_url(settings.REDIS_URL)
    assert await client.xlen(stream_key(run_id)) == 2
    await client.aclose()


async def test_numbers_of_a_lost_stream_go_on_above_what_was_shown(
    publisher: Publisher,
) -> None:
    run_id = uuid4()
    channel = publisher.open(run_id=run_id, epoch=3, floor=40)
    publisher.send(channel, {"type": "text.delta", "text": "x"})
    await publisher.flush()
    assert channel.last_seq == 1041


def test_a_door_publishes_without_a_loop_and_survives_a_missing_valkey(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run_id = uuid4()
    assert publish(run_id=run_id, epoch=1, floor=0, events=[{"type": "x"}, {"type": "y"}]) == 2
    assert publish(run_id=run_id, epoch=1, floor=0, events=[{"type": "z"}]) == 3
    away = redis.Redis.from_url("redis://127.0.0.1:1/0", retry=None)
    monkeypatch.setattr("agents.stream._sync", away)
    assert publish(run_id=run_id, epoch=1, floor=0, events=[{"type": "z"}]) == 0

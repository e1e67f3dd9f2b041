"""Event streams of a real web process: more of them than it has database connections."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import httpx2
import pytest
from django.db import connection

from agents import stream
from agents.loop.events import run_finished, text_delta
from agents.models import RunState
from tests.support.cast import Cast, make_cast
from tests.support.stack import Stack

STREAMS = 12
CONNECTIONS = 4


@pytest.fixture
def live(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cast]:
    yield make_cast("arena")


def publish(run_id: UUID, *, is_end: bool) -> None:
    events = [text_delta("oi ")] + [run_finished(RunState.SUCCEEDED, "oi ")] * is_end
    assert stream.publish(run_id=run_id, epoch=1, floor=0, events=events) > 0


async def follow(client: httpx2.AsyncClient, path: str, opened: asyncio.Semaphore) -> list[int]:
    """The numbers of the events that a stream tells, to its end."""
    seen = []
    async with client.stream("GET", path, headers={"Accept": "text/event-stream"}) as response:
        assert response.status_code == 200
        async for line in response.aiter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line.removeprefix("data: "))["seq"])
                if len(seen) == 1:
                    opened.release()
    return seen


async def use(base: str, token: str, run_id: UUID) -> list[list[int]]:
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx2.Limits(max_connections=STREAMS + 2)
    async with httpx2.AsyncClient(
        base_url=base, headers=headers, timeout=60, limits=limits
    ) as client:
        opened = asyncio.Semaphore(0)
        following = [
            asyncio.create_task(follow(client, f"runs/{run_id}/events/", opened))
            for _ in range(STREAMS)
        ]
        for _ in range(STREAMS):
            await opened.acquire()
        # All are open; none of them holds a database connection, or this would wait for one.
        for _ in range(CONNECTIONS + 1):
            assert (await client.get(f"runs/{run_id}/")).json()["state"] == "queued"
        await asyncio.to_thread(publish, run_id, is_end=True)
        return await asyncio.gather(*following)


def connections_of_the_web_process() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_many_streams_hold_no_database_connection(live: Cast, tmp_path: Path) -> None:
    run = live.post("ana", "oi")
    token = live.token("ana")
    publish(run.pk, is_end=False)
    env = {"DATABASE_POOL_SIZE": str(CONNECTIONS)}
    with Stack(home=tmp_path, workers=0, beat=False, env=env) as stack:
        told = asyncio.run(use(f"{stack.url}/t/arena/api/v1/", token, run.pk))
        assert connections_of_the_web_process() <= CONNECTIONS + 1
    assert told == [[1, 2, 3]] * STREAMS

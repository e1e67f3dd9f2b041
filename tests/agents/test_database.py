"""Work that has begun is awaited to its end, whoever is cancelled meanwhile."""

import asyncio

import pytest

from agents.database import uncut


async def test_work_goes_on_however_often_its_caller_is_cancelled() -> None:
    may_end, done = asyncio.Event(), []

    async def work() -> None:
        await may_end.wait()
        done.append("done")

    caller = asyncio.create_task(uncut(work()))
    for _ in range(3):
        await asyncio.sleep(0)
        caller.cancel()
    await asyncio.sleep(0)
    assert not caller.done()
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert done == ["done"]


async def test_what_work_gives_or_raises_comes_back() -> None:
    async def fails() -> None:
        raise LookupError

    assert await uncut(asyncio.sleep(0, "result")) == "result"
    with pytest.raises(LookupError):
        await uncut(fails())

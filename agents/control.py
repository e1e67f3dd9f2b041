"""Word to the worker that holds a run: look at it now.

One subscription for each worker process. A word that is lost costs a moment and nothing else: the
heartbeat finds the same in the database, which is asked after each word too.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from uuid import UUID

import redis
import redis.asyncio
from django.conf import settings

from agents.stream import sync_client

logger = logging.getLogger(__name__)

RETRY_SECONDS = 1.0

type OnWord = Callable[[UUID], Awaitable[None]]


def _channel(owner: str) -> str:
    return f"bo:worker:{owner}"


def tell_worker(*, owner: str, run_id: UUID) -> None:
    """Have the worker ``owner`` look at a run."""
    try:
        sync_client().publish(_channel(owner), str(run_id))
    except redis.RedisError as error:
        logger.warning("the worker of run %s was not told: %s", run_id, type(error).__name__)


class Listener:
    """Hears the words for one worker, and goes on listening when Valkey was away."""

    def __init__(self, *, owner: str, on_word: OnWord) -> None:
        self._channel = _channel(owner)
        self._on_word = on_word
        self._client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=None, socket_connect_timeout=2, max_connections=1
        )
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                await self._hear()
            except (redis.RedisError, OSError, ValueError) as error:
                logger.info("words to this worker cannot be heard: %s", type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _hear(self) -> None:
        async with self._client.pubsub(ignore_subscribe_messages=True) as words:
            await words.subscribe(self._channel)
            async for word in words.listen():
                await self._on_word(UUID(word["data"].decode()))

    async def close(self) -> None:
        """Listen no more, and let the connection go."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._client.aclose()

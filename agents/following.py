"""How a socket follows the runs of its conversation through the process's one reader."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from uuid import UUID
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings
from django.db import Error
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from agents.loop.events import run_finished
from agents.models import RunState
from agents.stream import Reader, Subscription
from boxoffice.common.types import JsonObject

logger = logging.getLogger(__name__)

SUBSCRIBE_SECONDS = 3.0
RETRY_SECONDS = 1.0
# The worker publishes the end of a run some milliseconds after its commit.
END_GRACE_SECONDS = 1.0
HEALTH_SECONDS = 2.0

type Send = Callable[[JsonObject], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, from the database."""

    state: RunState
    answer: str
    is_handoff: bool


class StreamHealth:
    """Whether Valkey takes what it is given; asked at most once in two seconds, by all together.

    A full one still answers, and refuses every event.
    """

    def __init__(self) -> None:
        self._client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=HEALTH_SECONDS,
            socket_connect_timeout=HEALTH_SECONDS,
            retry=Retry(NoBackoff(), 0),
            max_connections=2,
        )
        self._lock = asyncio.Lock()
        self._asked_at = 0.0
        self._is_well = True

    async def is_well(self) -> bool:
        """Whether Valkey works now, or did a moment ago."""
        async with self._lock:
            if time.monotonic() - self._asked_at >= HEALTH_SECONDS:
                self._is_well = await self._ask()
                self._asked_at = time.monotonic()
            return self._is_well

    async def _ask(self) -> bool:
        try:
            await self._client.set("bo:health", "1", ex=60)
        except (redis.RedisError, OSError):
            return False
        return True


@dataclass(slots=True, weakref_slot=True)
class Shared:
    """What all sockets of one event loop share."""

    reader: Reader = field(default_factory=Reader)
    health: StreamHealth = field(default_factory=StreamHealth)


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, Shared] = WeakKeyDictionary()


def shared() -> Shared:
    """The reader and the health of the running loop, made at the first call."""
    loop = asyncio.get_running_loop()
    found = _shared.get(loop)
    if found is None:
        found = _shared[loop] = Shared()
    return found


class RunFollower:
    """Brings one socket the events of one run, in order, each once, until the run is over.

    ``position`` is the number of the last event that the socket has. A stream that is away is
    tried again until it is back. When the database says that the run is over and the stream
    does not, the end is told from the database, marked ``recovered``.
    """

    def __init__(
        self,
        *,
        run_id: UUID,
        after: int,
        send: Send,
        outcome: Callable[[UUID], Awaitable[Outcome | None]],
        on_away: Callable[[], Awaitable[None]],
    ) -> None:
        self.run_id = run_id
        self.position = after
        self.is_done = False
        self._send = send
        self._outcome = outcome
        self._on_away = on_away
        self._limit: asyncio.Timeout | None = None

    def expect_end(self) -> None:
        """The run is over: if its stream does not say so within a moment, the database does."""
        if self._limit is not None and self._limit.when() is None:
            self._limit.reschedule(asyncio.get_running_loop().time() + END_GRACE_SECONDS)

    async def run(self) -> None:
        """Forward until the end, over every failure of the stream and of the database."""
        while not self.is_done:
            try:
                await self._follow_or_look()
            except Error as error:
                logger.warning("run %s cannot be followed: %s", self.run_id, type(error).__name__)
            if not self.is_done:
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow_or_look(self) -> None:
        try:
            await self._follow()
        except (redis.RedisError, OSError) as error:
            logger.info("run %s cannot be followed: %s", self.run_id, type(error).__name__)
            await self._on_away()
            await self._tell_end()

    async def _follow(self) -> None:
        async with AsyncExitStack() as stack:
            async with asyncio.timeout(SUBSCRIBE_SECONDS):
                subscription = await stack.enter_async_context(
                    shared().reader.subscribe(self.run_id, self.position)
                )
            is_over = await self._outcome(self.run_id) is not None
            while not self.is_done:
                event = await self._next(subscription, END_GRACE_SECONDS if is_over else None)
                if event is None:
                    await self._tell_end()
                    is_over = False
                    continue
                self.position = event["seq"]
                await self._send(event)
                self.is_done = event["type"] == "run.finished"

    async def _next(self, subscription: Subscription, seconds: float | None) -> JsonObject | None:
        """The next event; ``None`` when none came in time."""
        try:
            async with asyncio.timeout(seconds) as self._limit:
                return await subscription.queue.get()
        except TimeoutError:
            return None
        finally:
            self._limit = None

    async def _tell_end(self) -> None:
        outcome = await self._outcome(self.run_id)
        if outcome is None or self.is_done:
            return
        self.is_done = True
        self.position += 1
        end = run_finished(outcome.state, outcome.answer, is_handoff=outcome.is_handoff)
        await self._send({"run": str(self.run_id), "seq": self.position, **end, "recovered": True})

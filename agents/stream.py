"""Events of runs on their way to the pages, through Valkey Streams.

One stream per run; the entry id is ``<lease_epoch>-<seq>``, and a script on the server gives the
numbers: they rise without a gap over all epochs of a run, and an event of an epoch that is over
is refused. What matters for good is in ``Step`` rows: a stream may be lost.
"""

import asyncio
import contextlib
import hashlib
import json
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings

from boxoffice.common.types import JsonObject

logger = logging.getLogger(__name__)

type Entries = list[tuple[bytes, dict[bytes, bytes]]]

READ_PAUSE_SECONDS = 0.004

# KEYS[1] stream · ARGV: epoch, floor, max entries, expiry (s), event… → the last number given,
# or -1 when a newer epoch has written. A stream that is gone begins a thousand above the floor,
# so that no page takes new events for ones that it has shown.
_APPEND = """
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local epoch, floor, seq = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
if last[1] then
  local dash = string.find(last[1][1], '-', 1, true)
  if tonumber(string.sub(last[1][1], 1, dash - 1)) > epoch then return -1 end
  seq = tonumber(string.sub(last[1][1], dash + 1))
elseif floor > 0 then
  seq = floor + 1000
end
for i = 5, #ARGV do
  seq = seq + 1
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[3], epoch .. '-' .. seq, 'e', ARGV[i])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return seq
"""
_APPEND_SHA = hashlib.sha1(_APPEND.encode(), usedforsecurity=False).hexdigest()


def stream_key(run_id: UUID | str) -> str:
    """The name of a run's stream."""
    return f"bo:run:{run_id}"


def _arguments(epoch: int, floor: int, events: Sequence[JsonObject]) -> list[Any]:
    return [
        epoch,
        floor,
        settings.STREAM_MAX_ENTRIES,
        settings.STREAM_EXPIRE_SECONDS,
        *(json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events),
    ]


def publish(*, run_id: UUID, epoch: int, floor: int, events: Sequence[JsonObject]) -> int:
    """Append events from a door (a decision, a cancelled run). Returns the last number, 0 if lost.

    Losing them loses nothing for good, so a Valkey that is away is logged, not raised.
    """
    try:
        client = sync_client()
        return int(client.eval(_APPEND, 1, stream_key(run_id), *_arguments(epoch, floor, events)))
    except redis.RedisError as error:
        logger.warning("events of run %s were not published: %s", run_id, type(error).__name__)
        return 0


_sync: redis.Redis | None = None


def sync_client() -> redis.Redis:
    """The process's client for those who do not wait in an event loop."""
    global _sync
    if _sync is None:
        _sync = redis.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=2,
            socket_connect_timeout=2,
            retry=None,
            max_connections=200,
        )
    return _sync


@dataclass(slots=True)
class RunChannel:
    """One live run's way to its stream: ``send`` only queues, the publisher writes."""

    run_id: UUID
    epoch: int
    last_seq: int
    pending: list[JsonObject] = field(default_factory=list)
    is_taken_over: bool = False


class Publisher:
    """Gathers the events of all runs of a worker, and writes them in one pipeline."""

    def __init__(self) -> None:
        self._client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL, socket_timeout=5, socket_connect_timeout=2, max_connections=8
        )
        self._dirty: dict[UUID, RunChannel] = {}
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self._task = asyncio.create_task(self._run())

    def open(self, *, run_id: UUID, epoch: int, floor: int) -> RunChannel:
        """A channel for one run under one lease."""
        return RunChannel(run_id=run_id, epoch=epoch, last_seq=floor)

    def send(self, channel: RunChannel, event: JsonObject) -> None:
        """Queue an event; neighbouring text of one flush becomes one event."""
        pending = channel.pending
        if event["type"] == "text.delta" and pending and pending[-1]["type"] == "text.delta":
            pending[-1] = {**pending[-1], "text": pending[-1]["text"] + event["text"]}
        else:
            pending.append(event)
        self._dirty[channel.run_id] = channel
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            begun = time.monotonic()
            await self.flush()
            # From beginning to beginning: what a flush takes is no time to gather on top.
            left = settings.STREAM_FLUSH_SECONDS - (time.monotonic() - begun)
            await asyncio.sleep(max(left, 0))

    async def flush(self) -> None:
        """Write what is queued; events of a Valkey that is away are dropped, and logged."""
        async with self._lock:
            dirty, self._dirty = self._dirty, {}
            if not dirty:
                return
            batches = [(channel, channel.pending) for channel in dirty.values()]
            for channel, _ in batches:
                channel.pending = []
            try:
                await self._write(batches)
            except (redis.RedisError, OSError) as error:
                logger.warning("events of %d runs lost: %s", len(batches), type(error).__name__)

    async def _write(self, batches: list[tuple[RunChannel, list[JsonObject]]]) -> None:
        answers = await self._append(batches)
        if any(isinstance(answer, redis.exceptions.NoScriptError) for answer in answers):
            # A fresh server: it has run none of them.
            await self._client.script_load(_APPEND)
            answers = await self._append(batches)
        for (channel, _), answer in zip(batches, answers, strict=True):
            if isinstance(answer, Exception):
                raise answer
            if answer == -1:
                channel.is_taken_over = True
            else:
                channel.last_seq = int(answer)

    async def _append(self, batches: list[tuple[RunChannel, list[JsonObject]]]) -> list[Any]:
        """One message for all; redis-py's own scripts would ask each time whether they exist."""
        pipeline = self._client.pipeline(transaction=False)
        for channel, events in batches:
            arguments = _arguments(channel.epoch, channel.last_seq, events)
            pipeline.evalsha(_APPEND_SHA, 1, stream_key(channel.run_id), *arguments)
        return list(await pipeline.execute(raise_on_error=False))

    async def close(self) -> None:
        """Write the rest, and let the connection go."""
        await self.flush()
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._client.aclose()


def _decode(run_id: str, entry_id: bytes, fields: dict[bytes, bytes]) -> JsonObject:
    seq = int(entry_id.rsplit(b"-", 1)[1])
    return {"run": run_id, "seq": seq, **json.loads(fields[b"e"])}


def history(*, run_id: UUID, after: int = 0) -> list[JsonObject]:
    """The events of a run that the stream still holds, from number ``after`` on (exclusive).

    A Valkey that is away has none.
    """
    try:
        entries: Any = sync_client().xrange(stream_key(run_id))
    except redis.RedisError as error:
        logger.warning("events of run %s were not read: %s", run_id, type(error).__name__)
        return []
    events = [_decode(str(run_id), entry_id, fields) for entry_id, fields in entries]
    return [event for event in events if event["seq"] > after]


@dataclass(slots=True, eq=False)
class Subscription:
    """One socket's view of one run; ``events`` yields what follows ``last_seq``, each once."""

    run_id: str
    last_seq: int
    queue: asyncio.Queue[JsonObject] = field(default_factory=asyncio.Queue)

    def offer(self, event: JsonObject) -> None:
        """Queue an event that this socket has not seen."""
        if event["seq"] > self.last_seq:
            self.last_seq = event["seq"]
            self.queue.put_nowait(event)


class Reader:
    """The one reader of a web process for all its sockets: a single blocking XREAD."""

    def __init__(self) -> None:
        # Many sockets may open at once: they wait for a connection instead of failing.
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            settings.REDIS_URL,
            socket_timeout=None,
            socket_connect_timeout=2,
            max_connections=16,
            timeout=10,
        )
        self._client = redis.asyncio.Redis.from_pool(pool)
        self._subscriptions: dict[str, set[Subscription]] = defaultdict(set)
        self._positions: dict[str, bytes] = {}
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._wake_key = f"bo:wake:{id(self)}:{asyncio.get_running_loop().time()}"

    @contextlib.asynccontextmanager
    async def subscribe(self, run_id: UUID | str, after: int) -> AsyncIterator[Subscription]:
        """Follow a run from the event after number ``after``: first what there is, then live."""
        subscription = Subscription(run_id=str(run_id), last_seq=after)
        key = stream_key(run_id)
        held: list[JsonObject] = []
        gate = _Gate(subscription, held)
        self._subscriptions[key].add(gate)
        try:
            entries: Entries = await self._client.xrange(key)  # type: ignore[assignment]
            for entry_id, fields in entries:
                subscription.offer(_decode(subscription.run_id, entry_id, fields))
            gate.release()
            if key not in self._positions:
                # From here the shared read follows; what comes twice is told by its number.
                self._positions[key] = entries[-1][0] if entries else b"0-0"
                self._ensure_running()
                await self._wake_up()
            yield subscription
        finally:
            self._subscriptions[key].discard(gate)
            if not self._subscriptions[key]:
                del self._subscriptions[key]
                self._positions.pop(key, None)

    async def close(self) -> None:
        """End the shared read, and let the connections go."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        await self._client.aclose()

    def _ensure_running(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        self._changed.set()

    async def _wake_up(self) -> None:
        """End the blocking read, so that it begins anew with the stream that was added."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.xadd(self._wake_key, {"e": "1"}, maxlen=1)
        pipeline.expire(self._wake_key, 3600)
        await pipeline.execute()

    async def _run(self) -> None:
        wake = b"$"
        while True:
            if not self._positions:
                self._changed.clear()
                await self._changed.wait()
            try:
                wake = await self._read(wake)
                # A worker writes for all its runs at once: what wakes a read is the first of many.
                await asyncio.sleep(READ_PAUSE_SECONDS)
            except (redis.RedisError, OSError) as error:
                logger.warning("reading events: %s", type(error).__name__)
                await asyncio.sleep(0.5)

    async def _read(self, wake: bytes) -> bytes:
        streams: dict[Any, Any] = {self._wake_key: wake, **self._positions}
        answer: Any = await self._client.xread(streams, count=1000, block=2000)
        # RESP3 answers with a mapping of lists of entry lists, RESP2 with pairs.
        pairs = answer.items() if isinstance(answer, dict) else (answer or [])
        for raw_key, entries in pairs:
            key = raw_key.decode()
            flat = entries[0] if entries and isinstance(entries[0], list) else entries
            if not flat:
                continue
            if key == self._wake_key:
                wake = flat[-1][0]
                continue
            self._deliver(key, flat)
        return wake

    def _deliver(self, key: str, entries: Entries) -> None:
        if key not in self._positions:
            return
        self._positions[key] = entries[-1][0]
        run_id = key.removeprefix("bo:run:")
        for entry_id, fields in entries:
            event = _decode(run_id, entry_id, fields)
            for subscription in list(self._subscriptions[key]):
                subscription.offer(event)


_readers: WeakKeyDictionary[asyncio.AbstractEventLoop, Reader] = WeakKeyDictionary()


def shared_reader() -> Reader:
    """The one reader of this process's event loop."""
    loop = asyncio.get_running_loop()
    if loop not in _readers:
        _readers[loop] = Reader()
    return _readers[loop]


class _Gate(Subscription):
    """Holds live events back until what was there before has been delivered."""

    __slots__ = ("held", "is_open", "target")

    def __init__(self, target: Subscription, held: list[JsonObject]) -> None:
        super().__init__(run_id=target.run_id, last_seq=0)
        self.target = target
        self.held = held
        self.is_open = False

    def offer(self, event: JsonObject) -> None:
        """Pass on, or hold back."""
        if self.is_open:
            self.target.offer(event)
        else:
            self.held.append(event)

    def release(self) -> None:
        """Deliver what was held; from now on pass on."""
        for event in self.held:
            self.target.offer(event)
        self.is_open = True

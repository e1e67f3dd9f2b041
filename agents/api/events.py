"""The events of a run over HTTP: a list, or Server-Sent Events."""

import asyncio
import json
from collections.abc import AsyncIterator
from uuid import UUID

import redis
from asgiref.sync import sync_to_async
from django.db import close_old_connections
from django.http import StreamingHttpResponse
from rest_framework.renderers import JSONRenderer

from agents import selectors
from agents.loop.events import run_finished
from agents.models import RUN_MACHINE, Run, RunState
from agents.stream import Subscription, history, shared_reader
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.scope import tenant_scope

# Below the idle time-out of the proxies that one meets (60 s), and often enough to notice in the
# rows that a run has ended whose last event was lost.
KEEP_ALIVE_SECONDS = 10.0
GRACE_SECONDS = 1.0
FINISHED = "run.finished"


class EventStreamRenderer(JSONRenderer):
    """Lets a client ask for an event stream; an error is JSON all the same."""

    media_type = "text/event-stream"
    format = "sse"


def event_list(run: Run, after: int) -> list[JsonObject]:
    """What the stream holds after number ``after``.

    A run that is over always ends with ``run.finished``, from its rows when the stream is gone.
    """
    events = history(run_id=run.pk)
    if run.state in RUN_MACHINE.terminal and not (events and events[-1]["type"] == FINISHED):
        # The stream may be gone, and its numbers with it: one that no page can have seen.
        last = max(events[-1]["seq"] if events else 0, after, run.event_seq)
        events.append(_finished(run, last + 1))
    return [event for event in events if event["seq"] > after]


def stream_response(run: Run, after: int) -> StreamingHttpResponse:
    """The live stream after number ``after``; the caller has checked who may see the run."""
    return StreamingHttpResponse(
        _frames(run.tenant_id, run.pk, after),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _frames(tenant_id: UUID, run_id: UUID, after: int) -> AsyncIterator[bytes]:
    # The view's thread would keep its database connection for as long as the stream is open.
    await sync_to_async(close_old_connections)()
    yield b"retry: 1000\n\n"
    try:
        async with shared_reader().subscribe(run_id, after) as subscription:
            async for frame in _follow(subscription, tenant_id, run_id):
                yield frame
    except (redis.RedisError, OSError):
        # The client comes back with the number of the last event that it has seen.
        yield b": the events are away\n\n"


async def _follow(
    subscription: Subscription, tenant_id: UUID, run_id: UUID
) -> AsyncIterator[bytes]:
    last_seq = subscription.last_seq
    pause = 0.0  # what the stream holds is queued already; then the rows are asked at once
    is_over = False
    while True:
        event: JsonObject | None
        try:
            async with asyncio.timeout(pause):
                event = await subscription.queue.get()
        except TimeoutError:
            event = await sync_to_async(_ended)(tenant_id, run_id, last_seq)
            if event is None:
                pause = KEEP_ALIVE_SECONDS
                yield b": keep-alive\n\n"
                continue
            if not is_over:  # the run's last events may still be on their way
                is_over, pause = True, GRACE_SECONDS
                continue
        last_seq = event["seq"]
        yield _frame(event)
        if event["type"] == FINISHED:
            return


def _ended(tenant_id: UUID, run_id: UUID, last_seq: int) -> JsonObject | None:
    """The last event of a run whose rows say that it is over."""
    try:
        with tenant_scope(tenant_id):
            run = Run.objects.filter(pk=run_id).first()
            if run is None or run.state not in RUN_MACHINE.terminal:
                return None
            return _finished(run, max(last_seq, run.event_seq) + 1)
    finally:
        close_old_connections()


def _finished(run: Run, seq: int) -> JsonObject:
    answer = selectors.answer_of(run) or ""
    return {"run": str(run.pk), "seq": seq, **run_finished(RunState(run.state), answer)}


def _frame(event: JsonObject) -> bytes:
    data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
    return f"id: {event['seq']}\nevent: {event['type']}\ndata: {data}\n\n".encode()

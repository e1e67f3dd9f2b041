"""What a call's bucket and circuit cost, alone and with two hundred callers at once."""

import asyncio
import time
from uuid import uuid4

import uvloop

from benchmarks.sizes import Size
from benchmarks.table import Figure, Row, quantile
from boxoffice.common import limits
from boxoffice.common.limits import Bucket
from boxoffice.common.valkey import Question, ask

CALLERS = 200
# More than is asked for: what is measured is the deciding.
PLENTY = 10_000_000
EXACT = 500


def measure(size: Size) -> Figure:
    """Two buckets and a circuit for each call, in one round trip, through the loop's one line."""
    rounds = size.limit_rounds
    tag = f"bo:{{{uuid4()}}}"
    alone = uvloop.run(_alone(tag, rounds * 10))
    cpu = time.process_time()
    began = time.perf_counter()
    crowd = uvloop.run(_crowd(tag, rounds))
    wall = time.perf_counter() - began
    cpu = (time.process_time() - cpu) * 1000
    taken = uvloop.run(_exact(tag))
    calls = CALLERS * rounds
    rows = [
        Row(figure="one caller, p50", value=quantile(alone, 0.5), unit="ms"),
        Row(figure="one caller, p95", value=quantile(alone, 0.95), unit="ms"),
        Row(figure=f"{CALLERS} callers at once, p50", value=quantile(crowd, 0.5), unit="ms"),
        Row(figure=f"{CALLERS} callers at once, p95", value=quantile(crowd, 0.95), unit="ms"),
        Row(figure="  calls decided per second", value=calls / wall, unit=""),
        Row(figure="  CPU of the worker per call", value=cpu / calls, unit="ms"),
        Row(
            figure=f"tokens given of {EXACT}, to {CALLERS} callers who ask 5 times",
            value=taken,
            unit="",
            expected=f"= {EXACT}",
        ),
    ]
    return Figure(
        name="limits",
        title=f"Token buckets (fan, tenant) and circuit of a call ({calls} calls)",
        rows=rows,
        remarks=["Before the transaction of the call; no connection to the database is held."],
    )


def _question(tag: str, who: int, burst: int = PLENTY) -> Question:
    return limits.enter(
        once=f"{tag}:paid:{uuid4()}",
        buckets=[
            Bucket(key=f"{tag}:fan:{who}", per_minute=1, burst=burst),
            Bucket(key=f"{tag}:all:{burst}", per_minute=1, burst=burst),
        ],
        circuit=f"{tag}:circuit",
    )


async def _timed(question: Question) -> float:
    started = time.perf_counter()
    await ask(question)
    return (time.perf_counter() - started) * 1000


async def _alone(tag: str, calls: int) -> list[float]:
    return [await _timed(_question(tag, 0)) for _ in range(calls)]


async def _crowd(tag: str, rounds: int) -> list[float]:
    async def caller(who: int) -> list[float]:
        return [await _timed(_question(tag, who)) for _ in range(rounds)]

    found = await asyncio.gather(*(caller(who) for who in range(CALLERS)))
    return [passed for times in found for passed in times]


async def _exact(tag: str) -> int:
    async def caller(who: int) -> int:
        asked = [limits.entered(await ask(_question(tag, who, EXACT))) for _ in range(5)]
        return sum(entry.empty is None for entry in asked)

    return sum(await asyncio.gather(*(caller(who) for who in range(CALLERS))))

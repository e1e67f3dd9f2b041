"""Thousands of steps on end in one process: what grows that should not."""

import gc
import os
import time
from dataclasses import dataclass

from benchmarks.figures.storage import TABLES, written
from benchmarks.loop import TOOL, Clock, queue_runs, work
from benchmarks.processes import resident_mb
from benchmarks.sizes import Size
from benchmarks.stage import Stage, make_stage
from benchmarks.table import Figure, Row, quantile

STEPS_PER_RUN = 20
PARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the way."""

    until: int
    p50: float
    p95: float
    memory_mb: float
    bytes_per_step: float


def measure(size: Size) -> Figure:
    """Take the steps in ten parts, and compare the last with the first."""
    stage = make_stage("bench-soak", fans=1, tools=[TOOL])
    each = max(1, round(size.soak_steps / PARTS / STEPS_PER_RUN))
    steps = min(STEPS_PER_RUN, max(1, size.soak_steps // PARTS))
    _part(stage, 1, steps, 0)  # connections, imports
    started = time.perf_counter()
    parts: list[Part] = []
    for number in range(1, PARTS + 1):
        parts.append(_part(stage, each, steps, number * each * steps))
    seconds = time.perf_counter() - started
    return Figure(
        name="soak",
        title=f"{PARTS * each * steps:,} model + tool steps on end, in {seconds:,.0f} s",
        rows=_rows(parts),
        remarks=[
            f"Parts of equal length, runs of {steps} steps; the model takes no time.",
            "Drift: the last part's median over the first's. Memory: of the worker's process.",
        ],
    )


def _part(stage: Stage, runs: int, steps: int, until: int) -> Part:
    queued = queue_runs(stage, runs)
    before, clock = written(), Clock()
    work(stage, queued, steps=steps, clock=clock)
    after = written()
    grown = sum(after.tables[table] - before.tables[table] for table in TABLES)
    gc.collect()
    return Part(
        until=until,
        p50=quantile(clock.steps, 0.5),
        p95=quantile(clock.steps, 0.95),
        memory_mb=resident_mb(os.getpid()),
        bytes_per_step=grown / runs / steps,
    )


def _rows(parts: list[Part]) -> list[Row]:
    first, last = parts[0], parts[-1]
    rows = []
    for part in parts:
        rows += [
            Row(figure=f"step, p50, up to {part.until:,}", value=part.p50, unit="ms"),
            Row(figure="  p95", value=part.p95, unit="ms"),
            Row(figure="  memory", value=part.memory_mb, unit="MB"),
            Row(figure="  growth of the tables per step", value=part.bytes_per_step, unit="B"),
        ]
    thousands = max(1, last.until - first.until) / 1000
    return [
        *rows,
        Row(figure="drift of a step", value=last.p50 / first.p50, unit="x", expected="1"),
        Row(
            figure="memory per 1,000 steps",
            value=(last.memory_mb - first.memory_mb) / thousands,
            unit="MB",
            expected="0",
        ),
        Row(
            figure="growth of the tables per step, all parts",
            value=sum(part.bytes_per_step for part in parts) / len(parts),
            unit="B",
            expected="flat",
        ),
    ]

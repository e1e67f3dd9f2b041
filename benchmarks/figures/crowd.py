"""Many runs at once: how much longer they take than the model's own time, and what that costs."""

import time
from dataclasses import dataclass

from agents import handout
from agents.models import Run
from benchmarks.machine import sdk_row, sdk_token_us
from benchmarks.processes import (
    ConnectionCount,
    cpu_of_postgres,
    cpu_seconds,
    paced_model,
    resident_mb,
    site,
)
from benchmarks.sizes import Size
from benchmarks.stage import Stage, make_stage, no_wake_ups, wish
from benchmarks.table import Figure, Row
from boxoffice.tenancy.scope import tenant_scope

MODEL_CALLS = 3
DELAY_MS = 20.0
GIVE_UP_SECONDS = 180.0
POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """What one crowd took."""

    wall: float
    worker_cpu: float
    postgres_cpu: float
    memory_mb: float
    connections: int
    failed: int


def measure(size: Size) -> Figure:
    """Hand out all runs at once, and wait for the last answer."""
    stage = make_stage("bench-crowd", fans=size.runs, tools=["search_events"])
    ideal = MODEL_CALLS * size.run_tokens * DELAY_MS / 1000
    rows = [Row(figure="ideal: the model's own time", value=ideal, unit="s")]
    with paced_model() as (url, _):
        for workers in size.workers:
            crowd = _crowd(stage, size, url, workers)
            is_measured = size.runs == 300
            rows += _rows(crowd, size.runs, workers, is_measured=is_measured)
        rows.append(sdk_row(sdk_token_us(url)))
    return Figure(
        name="crowd",
        title=(
            f"{size.runs} runs at once: {MODEL_CALLS} model calls of {size.run_tokens} tokens at "
            f"{DELAY_MS:.0f} ms, two tool turns"
        ),
        rows=rows,
    )


def _rows(crowd: Crowd, runs: int, workers: int, *, is_measured: bool) -> list[Row]:
    name = f"{workers} worker process" + ("es" if workers > 1 else "")
    is_judged = is_measured and workers == 2
    references = {1: "8.6 s, 8.0 CPU-s", 2: "6.1 s"} if is_measured else {}
    return [
        Row(
            figure=f"{name}: wall time",
            value=crowd.wall,
            unit="s",
            expected="<= 7 s" if is_judged else "",
            reference=references.get(workers, ""),
        ),
        Row(figure="  CPU of the workers", value=crowd.worker_cpu, unit="s"),
        Row(figure="  CPU of the workers per run", value=crowd.worker_cpu / runs * 1e3, unit="ms"),
        Row(figure="  CPU of PostgreSQL", value=crowd.postgres_cpu, unit="s"),
        Row(figure="  memory of a worker", value=crowd.memory_mb, unit="MB"),
        Row(
            figure="  database connections",
            value=crowd.connections,
            unit="",
            expected="<= 20" if is_judged else "",
            reference="8 with one process" if workers == 1 and is_measured else "",
        ),
        Row(figure="  runs that did not succeed", value=crowd.failed, unit="", expected="0"),
    ]


def _crowd(stage: Stage, size: Size, model: str, workers: int) -> Crowd:
    each = -(-size.runs // workers)
    with site(model=model, workers=workers, web=False, runs_per_worker=each) as stack:
        _wait(stage, _queue(stage, workers * 8, wish(steps=2, tokens=2)))  # connections, imports
        runs = _queue(stage, size.runs, wish(steps=3, tokens=size.run_tokens, delay_ms=DELAY_MS))
        pids = [stack.pid(f"worker{number}") for number in range(workers)]
        before, database = sum(map(cpu_seconds, pids)), cpu_of_postgres()
        with ConnectionCount() as connections:
            started = time.time()
            wall = _wait(stage, runs, started)
        return Crowd(
            wall=wall,
            worker_cpu=sum(map(cpu_seconds, pids)) - before,
            postgres_cpu=cpu_of_postgres() - database,
            memory_mb=max(map(resident_mb, pids)),
            connections=connections.most,
            failed=_failed(stage, runs),
        )


def _queue(stage: Stage, count: int, text: str) -> list[Run]:
    fans = stage.fans
    with no_wake_ups(), tenant_scope(stage.tenant.pk):
        return [
            stage.post(stage.conversation(fan), fan, text)
            for fan in (fans[number % len(fans)] for number in range(count))
        ]


def _wait(stage: Stage, runs: list[Run], started: float | None = None) -> float:
    """Hand out the runs, and wait for their ends. Seconds from ``started`` to the last one."""
    for run in runs:
        handout.hand_out(run.tenant_id, run.pk)
    started = started or time.time()
    deadline = time.monotonic() + GIVE_UP_SECONDS
    with tenant_scope(stage.tenant.pk):
        mine = Run.objects.filter(pk__in=[run.pk for run in runs])
        while mine.filter(finished_at=None).exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{mine.filter(finished_at=None).count()} runs have no end.")
            time.sleep(POLL_SECONDS)
        last = mine.order_by("finished_at").last()
        assert last is not None
        assert last.finished_at is not None
        return last.finished_at.timestamp() - started


def _failed(stage: Stage, runs: list[Run]) -> int:
    with tenant_scope(stage.tenant.pk):
        mine = Run.objects.filter(pk__in=[run.pk for run in runs])
        return mine.exclude(state="succeeded", steps_used=MODEL_CALLS).count()

"""What one durable step costs with a model that takes no time."""

import time

from benchmarks.loop import TOOL, Clock, queue_runs, work
from benchmarks.processes import commit_ms, cpu_of_postgres, python_ms
from benchmarks.sizes import Size
from benchmarks.stage import make_stage
from benchmarks.table import Figure, Row, quantile

# DESIGN §5: append-only rows without guard and ledger; LangGraph; DBOS.
FLOOR = "4.7 ms rows only; DBOS 12.6; LangGraph 99"


def measure(size: Size) -> Figure:
    """Time the way from a turn of the model to its next call, committed results within."""
    stage = make_stage("bench-step", fans=1, tools=[TOOL])
    work(stage, queue_runs(stage, 1), steps=min(5, size.steps_per_run), clock=Clock())
    runs = queue_runs(stage, size.step_runs)
    clock = Clock()
    cpu, database = time.process_time(), cpu_of_postgres()
    work(stage, runs, steps=size.steps_per_run, clock=clock)
    cpu = (time.process_time() - cpu) * 1000
    database = (cpu_of_postgres() - database) * 1000
    steps = len(clock.steps)
    messages = clock.counts["messages"] / steps
    rows = [
        Row(
            figure="one model + tool step, p50",
            value=quantile(clock.steps, 0.5),
            unit="ms",
            expected="<= 8 ms",
            reference=FLOOR,
        ),
        Row(figure="one model + tool step, p95", value=quantile(clock.steps, 0.95), unit="ms"),
        *(
            Row(figure=f"  {phase}, p50", value=quantile(times, 0.5), unit="ms")
            for phase, times in clock.phases.items()
        ),
        Row(figure="CPU of the worker per step", value=cpu / steps, unit="ms"),
        Row(figure="CPU of PostgreSQL per step", value=database / steps, unit="ms"),
        Row(
            figure="messages to the database per step",
            value=messages,
            unit="",
        ),
        Row(figure="  and commits", value=clock.counts["commits"] / steps, unit=""),
        Row(
            figure="this machine now: one commit of a 1 KB row, p50",
            value=quantile(commit_ms(), 0.5),
            unit="ms",
            reference="0.6 ms",
        ),
        Row(figure="  CPU of 100,000 additions in Python", value=python_ms(), unit="ms"),
    ]
    return Figure(
        name="step",
        title=f"Overhead of a durable step (claim to committed result, {steps} steps)",
        rows=rows,
        remarks=["Messages and CPU include the claim and the end of each run."],
    )

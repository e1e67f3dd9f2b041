"""What a step leaves in the database, and whether that stays the same as a run grows."""

from dataclasses import dataclass

from django.db import connection

from benchmarks.loop import TOOL, Clock, queue_runs, work
from benchmarks.sizes import Size
from benchmarks.stage import make_stage
from benchmarks.table import Figure, Row, quantile

TABLES = (
    "agents_step",
    "agents_run",
    "agents_message",
    "tools_toolcall",
    "billing_usageentry",
)
REFERENCE = "2 KB rows only; DBOS 5.6 KB; LangGraph 410 KB"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Bytes so far: of each table with its indexes, and of the log."""

    tables: dict[str, int]
    wal: int


def measure(size: Size) -> Figure:
    """Grow runs of each length, and divide what was written by the number of steps."""
    stage = make_stage("bench-storage", fans=1, tools=[TOOL])
    longest = max(size.storage)
    rows: list[Row] = []
    tables: dict[str, float] = {}
    for steps, count in size.storage.items():
        runs = queue_runs(stage, count)
        before, clock = written(), Clock()
        work(stage, runs, steps=steps, clock=clock)
        after, all_steps = written(), steps * count
        tables = {t: (after.tables[t] - before.tables[t]) / all_steps for t in TABLES}
        expected = "<= 4,096 B" if steps == longest else "flat"
        rows += [
            Row(
                figure=f"rows and indexes per step, runs of {steps}",
                value=sum(tables.values()),
                unit="B",
                expected=expected,
                reference=REFERENCE if steps == longest else "",
            ),
            Row(
                figure=f"  write-ahead log per step, runs of {steps}",
                value=(after.wal - before.wal) / all_steps,
                unit="B",
                expected="flat",
            ),
            Row(
                figure=f"  time of a step, p50, runs of {steps}",
                value=quantile(clock.steps, 0.5),
                unit="ms",
                expected="flat",
            ),
        ]
    rows += [
        Row(figure=f"  {table}, runs of {longest}", value=grown, unit="B")
        for table, grown in tables.items()
    ]
    return Figure(
        name="storage",
        title="Bytes per model + tool step with results of about 1 KB",
        rows=rows,
        remarks=["Rows and indexes: growth of pg_total_relation_size, dead versions included."],
    )


def written() -> Written:
    """What there is now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT name, pg_total_relation_size(name::regclass) FROM unnest(%s::text[]) name",
            [list(TABLES)],
        )
        tables = dict(cursor.fetchall())
        cursor.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")
        (wal,) = cursor.fetchone()
    connection.close()
    return Written(tables=tables, wal=int(wal))

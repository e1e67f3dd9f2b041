"""The processes of a figure, and what they take of the machine."""

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from django.db import connection

from benchmarks.servers import CHECKOUT
from tests.support.stack import Stack

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
SAMPLE_SECONDS = 0.05
# What the connections of the product's processes are called in pg_stat_activity.
APPLICATION = "benchmarked"


@contextmanager
def paced_model() -> Iterator[tuple[str, int]]:
    """Start the paced model in a process of its own; yields its address and process id."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.model"], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait()


@contextmanager
def site(
    *,
    model: str,
    workers: int,
    web: bool,
    runs_per_worker: int,
    env: Mapping[str, str] | None = None,
) -> Iterator[Stack]:
    """Start uvicorn and Celery workers as in production, with the paced model behind them.

    No scheduler: nothing is swept, so nothing but the wake-ups moves a run.
    """
    with tempfile.TemporaryDirectory(prefix="boxoffice-bench-site-") as home:
        about = {
            "ANTHROPIC_API_KEY": "benchmark",
            "ANTHROPIC_BASE_URL": model,
            "PGAPPNAME": APPLICATION,
            "DEBUG": "0",
            **(env or {}),
        }
        stack = Stack(
            home=Path(home),
            workers=workers,
            web=web,
            beat=False,
            concurrency=runs_per_worker,
            env=about,
        )
        with stack:
            try:
                yield stack
            except BaseException:
                for name in stack.processes:
                    sys.stderr.write(f"--- end of the log of {name}\n{stack.log(name)[-2000:]}\n")
                raise


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, and of the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) / _TICKS


def cpu_of_postgres() -> float:
    """The same of the embedded PostgreSQL with all its server processes."""
    pid = int(os.environ["BENCHMARK_POSTGRES_PID"])
    total = 0.0
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(folder.name) == pid:
                total += cpu_seconds(pid)
            elif int(stat[1]) == pid:
                total += sum(int(field) for field in stat[11:13]) / _TICKS
    return total


def resident_mb(pid: int) -> float:
    """Megabytes of memory that a process has in use now."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE / 1e6


def owner() -> psycopg.Connection[Any]:
    """A connection to the database beside the product's, as the owner of its tables."""
    settings = connection.settings_dict
    about = {"dbname": settings["NAME"], "user": settings["USER"], "host": settings["HOST"]}
    return psycopg.connect(**about, autocommit=True)


def commit_ms(times: int = 200) -> list[float]:
    """How long this machine takes to commit one row of 1 KB: the least that anything durable costs.

    Written to a table that goes away again, by psycopg alone.
    """
    taken = []
    with owner() as own:
        own.execute("CREATE TABLE benchmark_floor (body text)")
        for _ in range(times):
            started = time.perf_counter()
            own.execute("INSERT INTO benchmark_floor VALUES (%s)", [secrets.token_hex(512)])
            taken.append((time.perf_counter() - started) * 1000)
        own.execute("DROP TABLE benchmark_floor")
    return taken


def python_ms(times: int = 20) -> float:
    """CPU time of a hundred thousand additions: how fast this machine is at the moment."""
    started = time.process_time()
    for _ in range(times):
        total = 0
        for number in range(100_000):
            total += number
    return (time.process_time() - started) * 1000 / times


class ConnectionCount:
    """The most connections that the product's processes have had to the database at once."""

    def __init__(self) -> None:
        self.most = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "ConnectionCount":
        self._thread.start()
        return self

    def __exit__(self, *about: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        with owner() as own:
            while not self._over.wait(SAMPLE_SECONDS):
                row = own.execute(count, [APPLICATION]).fetchone()
                self.most = max(self.most, row[0] if row else 0)

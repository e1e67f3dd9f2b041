"""A process dies by SIGKILL at every crash point of every call; nothing shows afterwards.

`make test` walks a sample; `make faults` walks all of it and prints the matrix.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.faults.scenarios import CALLS, Floor, Scenario, scenarios
from tests.faults.walk import Case, Matrix, asks_what_it_is_told, walk
from tests.support.cast import Cast
from tests.support.matrix import matrix_report
from tests.support.scripted_model import ScriptedModel
from tests.support.stack import CHECKOUT, WORKER_READY, free_port, test_database_url
from tools import registry

READY_SECONDS = 60
RECOVERS_SECONDS = 10
MOST_CASES = 900
# A write that a reviewer has changed dies everywhere; a read and a write of its own only where no
# reviewer's comes by.
SAMPLE = {
    Scenario(tool="refund_order", decision="edit"): "*",
    Scenario(tool="hold_seats", decision="plain"): "call_*",
    Scenario(tool="search_seats", decision="plain"): "read_*",
}


@contextmanager
def nursery(home: Path, model: ScriptedModel, workers: int, **env: str) -> Iterator[str]:
    """The processes, each replaced when it dies; the address of the web."""
    (home / "crash").mkdir()
    port = free_port()
    with (home / "nursery.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.nursery", str(home), str(port), str(workers)],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=CHECKOUT,
            env={
                **os.environ,
                "DATABASE_URL": test_database_url(),
                "DATABASE_POOL_SIZE": "3",
                "DATABASE_THREADS": "3",
                "RUNS_PER_PERSON": str(MOST_CASES),
                "ANTHROPIC_API_KEY": "scripted",
                "ANTHROPIC_BASE_URL": model.base_url,
                "BOXOFFICE_CRASH_DIR": str(home / "crash"),
                "PYTHONUNBUFFERED": "1",
                **env,
            },
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not all(WORKER_READY in text(home / f"worker{n}.log") for n in range(workers)):
            assert process.poll() is None, text(home / "nursery.log")
            assert time.monotonic() < deadline, text(home / "nursery.log")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def text(path: Path) -> str:
    """What a process has written."""
    return path.read_text(errors="replace") if path.exists() else ""


def walked(
    arena: Cast,
    model: ScriptedModel,
    home: Path,
    chosen: Iterable[Scenario],
    choose: Callable[[Case], bool],
    *,
    workers: int = 16,
    **env: str,
) -> Matrix:
    """The matrix of these scenarios, and of the deaths that are chosen."""
    model.route(asks_what_it_is_told)
    floor = Floor.build(arena, seats=MOST_CASES)
    with nursery(home, model, workers, **env) as url:
        return walk(
            floor=floor,
            url=url,
            crash_dir=home / "crash",
            deaths_file=home / "deaths",
            scenarios=list(chosen),
            choose=choose,
        )


def test_every_tool_has_a_call_to_be_walked_through() -> None:
    assert sorted(CALLS) == [spec.name for spec in registry.all_tools()]


def test_a_process_may_die_at_each_point_of_a_sample(
    arena: Cast, model: ScriptedModel, tmp_path: Path
) -> None:
    def choose(case: Case) -> bool:
        return fnmatchcase(str(case.death), SAMPLE[case.scenario])

    matrix = walked(arena, model, tmp_path, SAMPLE, choose, workers=8, LEASE_SECONDS="3")
    assert matrix.problems == []
    assert {case.scenario for case in matrix.cases} == set(SAMPLE)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_process_may_die_at_each_point_of_every_call(
    arena: Cast, model: ScriptedModel, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pattern = request.config.getoption("--case")
    chosen = [one for one in scenarios() if fnmatchcase(str(one), pattern.split()[0])]

    def choose(case: Case) -> bool:
        return fnmatchcase(str(case), pattern)

    matrix = walked(arena, model, tmp_path, chosen, choose)
    matrix_report(request.config, matrix.lines(), matrix.figures())
    assert matrix.problems == []
    assert matrix.cases
    if pattern == "*":
        assert matrix.not_reached == []
        assert matrix.figures()["recovery_seconds"]["p95"] < RECOVERS_SECONDS

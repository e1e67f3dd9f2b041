"""A process dies by SIGKILL at every crash point of every call; nothing shows afterwards.

`make test` walks a sample; `make faults` walks all of it and prints the matrix.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.faults.cases import Case
from tests.faults.scenarios import CALLS, Floor, Scenario, scenarios
from tests.faults.walk import Ground, asks_what_it_is_told, die_everywhere, stop_everywhere
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
HALTED_SAMPLE = Scenario(tool="hold_seats", decision="plain")


# Every kind of call once; where it comes from makes no difference to a worker that is paused.
HALTED = {
    Scenario(tool="search_seats", decision="plain"),
    Scenario(tool="hold_seats", decision="plain"),
    Scenario(tool="place_order", decision="approve"),
    Scenario(tool="send_email", decision="deny"),
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


@contextmanager
def ground(
    arena: Cast, model: ScriptedModel, home: Path, *, workers: int = 16, **env: str
) -> Iterator[Ground]:
    """A place for a walk."""
    model.route(asks_what_it_is_told)
    floor = Floor.build(arena, seats=MOST_CASES)
    with nursery(home, model, workers, **env) as url:
        yield Ground(floor=floor, url=url, home=home)


def test_every_tool_has_a_call_to_be_walked_through() -> None:
    assert sorted(CALLS) == [spec.name for spec in registry.all_tools()]


def test_a_process_may_die_or_halt_at_each_point_of_a_sample(
    arena: Cast, model: ScriptedModel, tmp_path: Path
) -> None:
    def choose(case: Case) -> bool:
        return fnmatchcase(str(case.death), SAMPLE[case.scenario])

    with ground(arena, model, tmp_path, workers=8, LEASE_SECONDS="3") as here:
        died = die_everywhere(here, list(SAMPLE), choose)
        assert died.problems == []
        assert {case.scenario for case in died.cases} == set(SAMPLE)
        halted = stop_everywhere(here, [HALTED_SAMPLE], choose, killed=died.killed)
        assert halted.problems == []
        assert len(halted.cases) == 2


def chosen(config: pytest.Config) -> tuple[list[Scenario], Callable[[Case], bool]]:
    """What ``--case`` says is to be walked."""
    pattern = config.getoption("--case")

    def choose(case: Case) -> bool:
        return fnmatchcase(str(case), pattern)

    return [one for one in scenarios() if fnmatchcase(str(one), pattern.split()[0])], choose


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_process_may_die_at_each_point_of_every_call(
    arena: Cast, model: ScriptedModel, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    some, choose = chosen(request.config)
    with ground(arena, model, tmp_path) as here:
        matrix = die_everywhere(here, some, choose)
    matrix_report(request.config, matrix.lines(), matrix.figures())
    assert matrix.problems == []
    assert matrix.cases
    if some == scenarios():
        assert matrix.not_reached == []
        assert matrix.figures()["recovery_seconds"]["p95"] < RECOVERS_SECONDS


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_worker_may_halt_at_each_point_and_go_on_too_late(
    arena: Cast, model: ScriptedModel, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    some, choose = chosen(request.config)

    def halts(case: Case) -> bool:
        # The doors' own points: who halts there keeps its fan waiting, and holds no lease.
        is_door = case.death is not None and case.death.point.startswith(("message_", "decision_"))
        return choose(case) and not is_door

    with ground(arena, model, tmp_path, LEASE_SECONDS="3") as here:
        matrix = stop_everywhere(here, [one for one in some if one in HALTED], halts)
    assert matrix.problems == []
    assert matrix.cases or some != scenarios()

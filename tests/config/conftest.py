"""Homes and processes for the tests of the devstack."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from boxoffice.config.devstack import process
from boxoffice.config.devstack.environment import CHECKOUT

HOLDER = """
import signal, sys
from pathlib import Path
from boxoffice.config.devstack import start_postgres, start_valkey
home, tethered = Path(sys.argv[1]), sys.argv[2] == "tethered"
postgres = start_postgres(home, durable=False, tethered=tethered)
valkey = start_valkey(home, tethered=tethered)
print(postgres.pid, valkey.pid, flush=True)
signal.pause()
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: a socket's path holds 107 bytes, and pytest's folders are long."""
    folder = Path(tempfile.mkdtemp(prefix="bx-"))
    yield folder
    for name in ("postgres", "valkey"):
        process.end_leftover(folder, name)
    shutil.rmtree(folder)


@pytest.fixture
def hold() -> Iterator[Callable[[Path, str], tuple[subprocess.Popen[str], int, int]]]:
    """Start both servers of a home from another process; its pid is there to be killed."""
    holders: list[subprocess.Popen[str]] = []

    def start(home: Path, how: str) -> tuple[subprocess.Popen[str], int, int]:
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(home), how],
            cwd=CHECKOUT,
            stdout=subprocess.PIPE,
            text=True,
        )
        holders.append(holder)
        assert holder.stdout is not None
        postgres, valkey = holder.stdout.readline().split()
        return holder, int(postgres), int(valkey)

    yield start
    for holder in holders:
        with suppress(ProcessLookupError):
            os.kill(holder.pid, signal.SIGKILL)
        holder.communicate()


def is_running(pid: int) -> bool:
    """Tell whether a process with this id lives (a zombie does not)."""
    return process.birth(pid) is not None


def eventually(condition: Callable[[], bool], what: str) -> None:
    """Wait until the condition holds; the limit only bounds a failure."""
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.05)

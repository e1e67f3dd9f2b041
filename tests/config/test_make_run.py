"""The whole stack as `make run` starts it, in a home of its own, and every way it can end."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from boxoffice.config.devstack import process
from boxoffice.config.devstack.environment import CHECKOUT
from boxoffice.config.devstack.supervisor import is_ready
from tests.config.conftest import eventually, is_running

NAMES = ("web", "worker1", "worker2", "scheduler", "valkey", "postgres")
pytestmark = pytest.mark.timeout(900)
DEVSTACK = [sys.executable, "-m", "boxoffice.config.devstack"]


def environment(home: Path, port: int) -> dict[str, str]:
    """A shell in which nothing of the project is set, but for the folder and the port."""
    ours = {"DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DEBUG", "DJANGO_SETTINGS_MODULE"}
    clean = {name: value for name, value in os.environ.items() if name not in ours}
    return {**clean, "BOXOFFICE_HOME": str(home), "PORT": str(port)}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Stack:
    home: Path
    port: int
    starter: subprocess.Popen[bytes]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def said(self) -> str:
        return (self.home / "said").read_text()

    def pid(self, name: str) -> int:
        return int(json.loads((self.home / f"{name}.process").read_text())["pid"])

    def all_pids(self) -> list[int]:
        return [self.pid(name) for name in NAMES]

    def kill(self) -> None:
        self.starter.kill()
        self.starter.wait()

    def is_up(self) -> bool:
        assert self.starter.poll() is None, self.said
        return is_ready(self.origin) and "Ready:" in self.said


def start(home: Path, command: list[str]) -> Stack:
    port = free_port()
    with (home / "said").open("wb") as said:
        starter = subprocess.Popen(
            command,
            cwd=CHECKOUT,
            env=environment(home, port),
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    stack = Stack(home, port, starter)
    try:
        eventually(stack.is_up, "the site is ready")
    except BaseException:
        stack.kill()
        raise
    return stack


def refused(home: Path, port: int) -> str:
    """Start once more, which must fail with one line, and return that line."""
    done = subprocess.run(
        DEVSTACK, cwd=CHECKOUT, env=environment(home, port), capture_output=True, text=True
    )
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="bx-"))
    yield folder
    for name in NAMES:
        process.end_leftover(folder, name)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def stack(home: Path) -> Iterator[Stack]:
    """The second start from this home: the first one was killed as soon as it was ready."""
    first = start(home, DEVSTACK)
    pids = first.all_pids()
    first.kill()
    stack = start(home, DEVSTACK)
    assert not any(is_running(pid) for pid in pids)
    yield stack
    stack.kill()


def test_it_shows_where_to_go_and_the_pages_are_there(stack: Stack) -> None:
    assert "The model is a DEMO" in stack.said
    for page in re.findall(r"http://127\.0\.0\.1:\d+/\S+", stack.said):
        with urllib.request.urlopen(page) as answer:
            assert answer.status == 200
    assert all(is_running(pid) for pid in stack.all_pids())


def test_a_second_start_from_the_folder_is_refused(stack: Stack) -> None:
    assert "already running from" in refused(stack.home, free_port())
    assert is_ready(stack.origin)


def test_a_busy_port_is_refused_before_anything_starts(stack: Stack, tmp_path: Path) -> None:
    line = refused(tmp_path / "other", stack.port)
    assert line.startswith(f"Port {stack.port} of 127.0.0.1 cannot be used")
    assert not (tmp_path / "other" / "pgdata").exists()


@pytest.mark.parametrize("name", ["worker1", "web", "valkey", "postgres"])
def test_what_is_killed_comes_back(stack: Stack, name: str) -> None:
    killed = stack.pid(name)
    os.kill(killed, signal.SIGKILL)
    eventually(
        lambda: (stack.home / f"{name}.process").exists() and stack.pid(name) != killed,
        f"{name} is started again",
    )
    eventually(lambda: is_ready(stack.origin), "the site is ready again")
    assert f"{name} ended" in stack.said


def test_one_interrupt_ends_everything_in_order(stack: Stack) -> None:
    pids = stack.all_pids()
    stack.starter.send_signal(signal.SIGINT)
    assert stack.starter.wait(60) == 0
    assert not any(is_running(pid) for pid in pids)
    assert list(stack.home.glob("*.process")) == []
    assert stack.said.rstrip().endswith("stopped")
    log = (stack.home / "logs" / "postgres.log").read_text()
    assert log.rstrip().endswith("database system is shut down")


def test_the_next_start_finds_its_data_and_ends_with_its_killed_parent(home: Path) -> None:
    before = (home / "secret_key").read_text()
    stack = start(home, ["sh", "-c", '"$@"; true', "sh", *DEVSTACK, "--tied"])
    assert (home / "secret_key").read_text() == before
    pids = stack.all_pids()
    stack.kill()
    eventually(lambda: not any(is_running(pid) for pid in pids), "all end with the parent")
    eventually(lambda: list(home.glob("*.process")) == [], "nothing is left to clean up")

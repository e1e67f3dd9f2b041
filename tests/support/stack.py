"""The site's real processes, started against the database and the Valkey of the tests.

    with Stack(home=tmp_path, workers=2, env={"ANTHROPIC_BASE_URL": model.base_url, …}) as stack:
        …  # stack.url answers; rows are committed in the test database
        stack.kill_worker(0)

A test that uses it needs ``transactional_db``: the processes see only what is committed.
Start it in the main thread: the kernel ends the processes when the starting thread dies.
"""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit, urlunsplit

from django.db import connection

from boxoffice.config.devstack.process import MYSELF, tether

READY_SECONDS = 60.0
GRACE_SECONDS = 8.0
POLL_SECONDS = 0.05
CHECKOUT = Path(__file__).resolve().parents[2]
# What Celery logs once a worker takes tasks.
WORKER_READY = "ready."


def free_port() -> int:
    """A port of the loopback that nobody holds now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_database_url() -> str:
    """``DATABASE_URL`` with the name of the database that the tests use now."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))


test_database_url.__test__ = False  # type: ignore[attr-defined]


class StackError(RuntimeError):
    """A process of the stack did not start; the message holds the end of its log."""


class Stack:
    """Web, workers and scheduler as processes of their own, ended by their ids."""

    def __init__(
        self,
        *,
        home: Path,
        workers: int = 1,
        web: bool = True,
        beat: bool = True,
        concurrency: int = 20,
        env: Mapping[str, str] | None = None,
        checkout: Path = CHECKOUT,
    ) -> None:
        self.home = home
        # Whose code is started; may be changed between two starts, as a deploy does.
        self.checkout = checkout
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._workers = workers
        self._web = web
        self._beat = beat
        self._concurrency = concurrency
        self._env = {
            **os.environ,
            "DATABASE_URL": test_database_url(),
            "DJANGO_SETTINGS_MODULE": "boxoffice.config.settings",
            "PYTHONUNBUFFERED": "1",
            "DEBUG": "1",
            **(env or {}),
        }

    def __enter__(self) -> Self:
        """Start everything, and wait until it works."""
        try:
            for name in self._names():
                self._start(name)
            for name in self._names():
                self.wait_ready(name)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End everything."""
        self.stop()

    def _names(self) -> list[str]:
        workers = [f"worker{number}" for number in range(self._workers)]
        return ["web"] * self._web + workers + ["beat"] * self._beat

    def start(self, name: str) -> None:
        """Start a process again (``web``, ``worker0``, …, ``beat``), and wait for it."""
        self._start(name)
        self.wait_ready(name)

    def begin(self, name: str) -> None:
        """Start a process again, without waiting for it."""
        self._start(name)

    def kill(self, name: str) -> None:
        """SIGKILL, and wait for the end: nothing in the process gets to clean up."""
        process = self.processes.pop(name)
        process.kill()
        process.wait()

    def kill_worker(self, number: int = 0) -> None:
        """SIGKILL one worker."""
        self.kill(f"worker{number}")

    def terminate(self, name: str) -> int:
        """SIGTERM, wait for the end (with a grace time), and return the exit code."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGTERM)
        return self._wait(process)

    def restart(self, name: str) -> None:
        """Kill a process if it runs, and start it again."""
        if name in self.processes:
            self.kill(name)
        self.start(name)

    def stop(self) -> None:
        """End every process: all at once politely, then for sure."""
        processes = list(self.processes.values())
        self.processes.clear()
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            self._wait(process)

    def pid(self, name: str) -> int:
        """The process id."""
        return self.processes[name].pid

    def log(self, name: str) -> str:
        """What the process has written."""
        path = self._log_path(name)
        return path.read_text(errors="replace") if path.exists() else ""

    def wait_ready(self, name: str) -> None:
        """Wait until a process does its work; raises ``StackError`` with its log when not."""
        deadline = time.monotonic() + READY_SECONDS
        while not self._is_ready(name):
            process = self.processes[name]
            if process.poll() is not None or time.monotonic() > deadline:
                raise StackError(f"{name} is not ready:\n{self.log(name)[-4000:]}")
            time.sleep(POLL_SECONDS)

    def _is_ready(self, name: str) -> bool:
        if name.startswith("worker"):
            return WORKER_READY in self.log(name)
        if name == "web":
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                    return bool(answer.status == 200)
            except (urllib.error.URLError, OSError):
                return False
        return True

    def _start(self, name: str) -> None:
        path = self._log_path(name)
        path.unlink(missing_ok=True)
        with path.open("wb") as output:
            self.processes[name] = subprocess.Popen(
                tether(self._command(name), account=MYSELF, signum=signal.SIGKILL),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._env,
                cwd=self.checkout,
            )

    def _command(self, name: str) -> list[str]:
        celery = [sys.executable, "-m", "celery", "-A", "boxoffice.config.celery"]
        if name == "web":
            web = [sys.executable, "-m", "uvicorn", "boxoffice.config.asgi:application"]
            web += ["--host", "127.0.0.1", "--port", str(self.port), "--ws", "websockets-sansio"]
            web += ["--ws-per-message-deflate", "false", "--no-access-log"]
            return [*web, "--timeout-graceful-shutdown", "2", "--log-level", "warning"]
        if name == "beat":
            schedule = str(self.home / "beat-schedule")
            return [*celery, "beat", "-l", "WARNING", "-s", schedule, "--pidfile="]
        worker = [*celery, "worker", "-P", "threads", "-c", str(self._concurrency)]
        worker += ["--without-gossip", "--without-mingle", "-l", "INFO"]
        return [*worker, "-n", f"{name}-{self.port}@%h"]

    def _log_path(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def _wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

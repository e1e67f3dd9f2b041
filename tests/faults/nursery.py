"""The site's processes, forked from one that has imported everything, each replaced when it dies.

    python -m tests.faults.nursery HOME PORT WORKERS

Web, scheduler and workers are what ``deploy/`` starts, in all but the start: a worker of its own
for each death would otherwise cost seconds of imports. A worker has a slot for one run, so that a
death takes nobody along, and the slot that every worker keeps for tenants with nothing at work.
``HOME/deaths`` tells who has died, and of what.
"""

import ctypes
import gc
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import django
import uvicorn

django.setup()

from boxoffice.config.asgi import application  # noqa: E402
from boxoffice.config.celery import app  # noqa: E402
from boxoffice.config.devstack.tether import PR_SET_PDEATHSIG  # noqa: E402

# What a process would import after the fork, and each one again.
IMPORTED_LATER = (
    "celery.apps.beat",
    "celery.apps.worker",
    "celery.bin.celery",
    "celery.concurrency.thread",
    "celery.worker.consumer",
    "celery.worker.loops",
    "celery.worker.strategy",
    "h11",
    "httpcore2",
    "kombu.transport.redis",
    "truststore",
    "uvicorn.loops.uvloop",
    "uvicorn.protocols.http.h11_impl",
    "uvicorn.protocols.websockets.websockets_sansio_impl",
)
# A process that cannot live is not born again and again.
MOST_FAILURES = 10


class Nursery:
    """Starts the processes, and starts each again that has died."""

    def __init__(self, home: Path, port: int, workers: int) -> None:
        self._home = home
        self._names: dict[int, str] = {}
        self._roles: dict[str, Callable[[], None]] = {
            "web": lambda: _serve(port),
            "beat": lambda: _celery("beat", "-s", str(home / "beat-schedule"), "--pidfile="),
        }
        for number in range(workers):
            self._roles[f"worker{number}"] = lambda number=number: _work(number, port)
        self._failures = 0

    def run(self) -> None:
        """Until SIGTERM."""
        app.loader.import_default_modules()
        for name in IMPORTED_LATER:
            import_module(name)
        gc.freeze()
        for name in self._roles:
            self._bear(name)
        while self._failures < MOST_FAILURES:
            pid, status = os.waitpid(-1, 0)
            name = self._names.pop(pid)
            code = os.waitstatus_to_exitcode(status)
            self._failures += code != -signal.SIGKILL
            with (self._home / "deaths").open("a") as log:
                log.write(f"{name} {code} {time.time():.3f}\n")
            self._bear(name)

    def end(self) -> None:
        """No process outlives this one."""
        for pid in self._names:
            os.kill(pid, signal.SIGKILL)

    def _bear(self, name: str) -> None:
        pid = os.fork()
        if pid:
            self._names[pid] = name
            return
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        log = os.open(self._home / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, sys.stdout.fileno())
        os.dup2(log, sys.stderr.fileno())
        try:
            self._roles[name]()
        finally:
            os._exit(1)  # whatever came of it: only the nursery goes on below


def _serve(port: int) -> None:
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=port,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        access_log=False,
        log_level="warning",
    )


def _work(number: int, port: int) -> None:
    options = ("-P", "threads", "-c", "2", "--without-gossip", "--without-mingle")
    _celery("worker", *options, "-n", f"worker{number}-{port}@%h")


def _celery(*arguments: str) -> None:
    app.start(["--quiet", *arguments, "-l", "INFO"])


def main(home: str, port: str, workers: str) -> None:
    """Keep the processes alive until SIGTERM."""
    nursery = Nursery(Path(home), int(port), int(workers))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        nursery.run()
    finally:
        nursery.end()


if __name__ == "__main__":
    main(*sys.argv[1:])

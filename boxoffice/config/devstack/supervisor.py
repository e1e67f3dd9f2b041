"""`make run`: servers, migrations, demo data, then the site's processes, until it is stopped."""

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from boxoffice.config.devstack.console import Console
from boxoffice.config.devstack.environment import (
    CHECKOUT,
    Options,
    check_port,
    site_environment,
)
from boxoffice.config.devstack.postgres import start_postgres
from boxoffice.config.devstack.process import (
    Child,
    DevstackError,
    Lock,
    RunningServer,
    end_leftover,
    make_home,
    open_log,
)
from boxoffice.config.devstack.valkey import start_valkey

WORKERS = 2
RUNS_PER_WORKER = 100
GRACE_SECONDS = 10
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 1.0, 30.0
# A process that has lived this long was healthy: its next fall is the first one again.
HEALTHY_SECONDS = 60.0
POLL_SECONDS = 0.2
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

SIGN_INS = """\
Sign-ins (password: demo)
  arena   ana (fan, pro)   fabio (fan, free)   rita (reviewer)   ada (tenant admin)
  teatro  teo (fan, pro)   rui (reviewer)      tina (tenant admin)
  operator of everything: root"""
DEMO_MODEL = """\
The model is a DEMO that follows written rules: no ANTHROPIC_API_KEY is set.
Set it to let the site talk to a real model."""


class Stopped(BaseException):
    """Somebody asked us to end; not an error, and not to be caught on the way."""


def commands(options: Options, home: Path) -> dict[str, list[str]]:
    """Return the command line of each of the site's processes, by name."""
    python = sys.executable
    # The warning is for messages in pickle, which we do not accept.
    quiet = ["-W", "ignore:You're running the worker with superuser privileges"]
    celery = [python, *quiet, "-m", "celery", "--quiet", "-A", "boxoffice.config.celery"]
    web = [python, "-m", "uvicorn", "boxoffice.config.asgi:application"]
    web += ["--host", options.host, "--port", str(options.port), "--ws", "websockets-sansio"]
    # A frame holds a few words: packing it costs more than sending it.
    web += ["--ws-per-message-deflate", "false", "--no-access-log"]
    web += ["--timeout-graceful-shutdown", "5", "--log-level", "warning"]
    worker = [*celery, "worker", "-P", "threads", "-c", str(RUNS_PER_WORKER)]
    worker += ["--without-gossip", "--without-mingle", "-l", "WARNING"]
    schedule = str(home / "beat-schedule")
    workers = {f"worker{n}": [*worker, "-n", f"worker{n}@%h"] for n in range(1, WORKERS + 1)}
    beat = [*celery, "beat", "-l", "WARNING", "-s", schedule, "--pidfile="]
    return {"web": web, **workers, "scheduler": beat}


@dataclass(slots=True)
class Keeper:
    """Keeps one of the site's processes alive: started again after a pause that doubles."""

    name: str
    start: Callable[[], Child]
    child: Child | None = None
    pause: float = FIRST_PAUSE_SECONDS
    started_at: float = 0.0
    due_at: float = 0.0

    def tend(self, now: float) -> str | None:
        """Start the process when it is due; return the line to say when it has fallen."""
        if self.child is None:
            if now >= self.due_at:
                self.child, self.started_at = self.start(), now
            return None
        code = self.child.process.poll()
        if code is None:
            return None
        self.child = None
        if now - self.started_at >= HEALTHY_SECONDS:
            self.pause = FIRST_PAUSE_SECONDS
        pause, self.due_at = self.pause, now + self.pause
        self.pause = min(self.pause * 2, LONGEST_PAUSE_SECONDS)
        return f"{self.name} ended with code {code}, starting it again in {pause:.0f} s"


@dataclass(slots=True)
class Supervisor:
    """Everything that one `make run` has started from one home."""

    options: Options
    home: Path
    console: Console
    servers: dict[str, RunningServer] = field(default_factory=dict)
    keepers: list[Keeper] = field(default_factory=list)

    def run(self) -> None:
        """Start everything and tend it. Ends only by an exception: `Stopped`, or what failed."""
        with ExitStack() as stack:
            stack.callback(self._stop_servers)
            environ = self._start_servers()
            self._manage("migrate", environ, "--noinput")
            self._manage("tools", environ, "register", "--quiet")
            self._manage("seed_demo", environ)
            stack.callback(self._stop_processes)
            for name, command in commands(self.options, self.home).items():
                self.keepers.append(Keeper(name, self._starter(name, command, environ)))
            self._tend_forever()

    def _start_servers(self) -> dict[str, str]:
        urls: dict[str, str] = {}
        for name, given, start in self._wanted_servers():
            if given:
                urls[name] = given
                continue
            self.servers[name] = start(self.home)
            urls[name] = self.servers[name].url
        return site_environment(
            self.options,
            home=self.home,
            database_url=urls["postgres"],
            redis_url=urls["valkey"],
        )

    def _wanted_servers(
        self,
    ) -> list[tuple[str, str | None, Callable[[Path], RunningServer]]]:
        return [
            ("postgres", self.options.database_url, start_postgres),
            ("valkey", self.options.redis_url, start_valkey),
        ]

    def _manage(self, command: str, environ: Mapping[str, str], *arguments: str) -> None:
        """Run a management command to its end.

        Raises:
            DevstackError: it failed; its output is on the screen and in its log.
        """
        line = [sys.executable, "manage.py", command, *arguments]
        child = self._starter(command, line, environ)()
        try:
            code = child.process.wait()
        finally:
            child.signal()
            child.wait(GRACE_SECONDS)
        if code:
            raise DevstackError(f"`manage.py {command}` failed; see {self._log(command)}")

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"

    def _starter(
        self, name: str, command: list[str], environ: Mapping[str, str]
    ) -> Callable[[], Child]:
        def start() -> Child:
            child = Child.start(
                name,
                command,
                home=self.home,
                output=subprocess.PIPE,
                env=environ,
                cwd=CHECKOUT,
            )
            if child.process.stdout is not None:
                self.console.follow(name, child.process.stdout, open_log(self.home, name))
            return child

        return start

    def _tend_forever(self) -> None:
        announced = False
        while True:
            self._tend_servers()
            for keeper in self.keepers:
                fallen = keeper.tend(time.monotonic())
                if fallen:
                    self.console.say(fallen)
            if not announced and is_ready(self.options.origin):
                self.console.say(welcome(self.options))
                announced = True
            time.sleep(POLL_SECONDS)

    def _tend_servers(self) -> None:
        for name, given, start in self._wanted_servers():
            server = self.servers.get(name)
            if given or server is None or server.is_alive():
                continue
            self.console.say(f"{name} ended by itself, starting it again; see {self._log(name)}")
            server.stop()
            self.servers[name] = start(self.home)
            if self.servers[name].url != server.url:
                raise DevstackError(f"{name} came back at another address: run `make run` again.")

    def _stop_processes(self) -> None:
        self.console.say("stopping")
        children = [keeper.child for keeper in self.keepers if keeper.child]
        deadline = time.monotonic() + GRACE_SECONDS
        for child in children:
            child.signal()
        for child in children:
            child.wait(max(0.0, deadline - time.monotonic()))

    def _stop_servers(self) -> None:
        for server in reversed(self.servers.values()):
            server.stop()


def is_ready(origin: str) -> bool:
    """Tell whether the site says that it can work."""
    try:
        with urllib.request.urlopen(f"{origin}/readyz", timeout=2) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def welcome(options: Options) -> str:
    """Return what to open and who to be."""
    pages = ["/t/arena/", "/t/teatro/", "/t/arena/approvals/", "/admin/"]
    parts = ["", "Ready:", *(f"  {options.origin}{page}" for page in pages), SIGN_INS]
    if not options.has_model_key:
        parts.append(DEMO_MODEL)
    return "\n".join([*parts, "Ctrl-C ends everything.", ""])


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn the first signal that asks us to end into `Stopped`; the ones after it change nothing.

    Raises:
        Stopped: in the main thread, wherever it is.
    """

    def stop(signum: int, frame: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped

    before = [signal.signal(each, stop) for each in SIGNALS]
    try:
        yield
    finally:
        for each, handler in zip(SIGNALS, before, strict=True):
            signal.signal(each, handler)


def supervise(environ: Mapping[str, str], console: Console) -> None:
    """Run the whole stack until a signal ends it.

    Raises:
        DevstackError: with the one line to show.
    """
    options = Options.read(environ)
    home = make_home(options.home)
    lock = Lock(home / "devstack.lock", f"BoxOffice Agents is already running from {home}.")
    try:
        with stop_on_signals():
            for name in [*commands(options, home), "migrate", "tools", "seed_demo"]:
                if end_leftover(home, name, GRACE_SECONDS):
                    console.say(f"ended {name}, which an earlier run had left behind")
            check_port(options.host, options.port)
            console.say(f"starting; data and logs are in {home}")
            Supervisor(options, home, console).run()
    except Stopped:
        console.say("stopped")
    finally:
        lock.release()

"""Processes that belong to a folder: started, recorded, found again after a crash, ended."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

TETHER = Path(__file__).with_name("tether.py")
LOG_LIMIT_BYTES = 10_000_000


class DevstackError(RuntimeError):
    """Nothing can be started; the message is one line for the person at the console."""


class AlreadyRunning(DevstackError):
    """Somebody else holds this folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """As whom a command runs: a prefix that changes the user, or a user id to change to."""

    prefix: tuple[str, ...] = ()
    uid: int | None = None
    gid: int | None = None


MYSELF = Account()


def birth(pid: int) -> str | None:
    """Return a mark that tells this process from a later one with the same id; None if it is dead.

    A process id alone is no proof: after a crash or a restart of the machine the system gives it
    to somebody else.
    """
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return None
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return None if fields[0] in "ZX" else f"{boot}:{fields[19]}"
    shown = subprocess.run(
        ["/bin/ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return shown.stdout.strip() or None


def end(pid: int, mark: str | None, signum: int, grace_seconds: float) -> None:
    """End the process that `mark` names: a polite signal, then SIGKILL after the grace time."""
    deadline = time.monotonic() + grace_seconds
    _send(pid, mark, signum)
    while mark and birth(pid) == mark:
        if time.monotonic() > deadline:
            _send(pid, mark, signal.SIGKILL)
        time.sleep(0.02)


def _send(pid: int, mark: str | None, signum: int) -> None:
    if mark and birth(pid) == mark:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


class Lock:
    """A folder's lock file, held until `release` or the death of this process.

    Raises:
        AlreadyRunning: another process holds it.
    """

    def __init__(self, path: Path, held_message: str) -> None:
        self._file = path.open("a+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            raise AlreadyRunning(held_message) from error

    def release(self) -> None:
        """Let go of the folder. Safe to call twice."""
        self._file.close()


@dataclass(slots=True)
class Child:
    """A process that this one started, with the record that lets a later start find it."""

    name: str
    process: subprocess.Popen[bytes]
    mark: str | None
    record: Path
    stop_signal: int

    @classmethod
    def start(
        cls,
        name: str,
        command: Sequence[str],
        *,
        home: Path,
        output: int | IO[bytes],
        stop_signal: int = signal.SIGTERM,
        account: Account = MYSELF,
        tethered: bool = True,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Self:
        """Start `command` in a session of its own, so that a Ctrl-C reaches only its starter."""
        process = subprocess.Popen(
            tether(command, account=account, signum=stop_signal if tethered else 0),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=env,
            cwd=cwd,
        )
        mark = birth(process.pid)
        record = home / f"{name}.process"
        # Whole or not at all: the next start may read it at any moment.
        unfinished = home / f"{name}.process.new"
        unfinished.write_text(
            json.dumps({"pid": process.pid, "birth": mark, "signal": stop_signal})
        )
        unfinished.replace(record)
        return cls(name, process, mark, record, stop_signal)

    @property
    def pid(self) -> int:
        """The process id."""
        return self.process.pid

    def signal(self, signum: int | None = None) -> None:
        """Ask the process to stop; never waits."""
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal if signum is None else signum)

    def wait(self, grace_seconds: float) -> None:
        """Wait for the process, kill it when the grace time is over, and drop its record."""
        try:
            self.process.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.record.unlink(missing_ok=True)


def tether(command: Sequence[str], *, account: Account, signum: int) -> list[str]:
    """Return the command line that runs `command` as `account`, tied to this process."""
    uid, gid = ("-" if part is None else str(part) for part in (account.uid, account.gid))
    me = str(os.getpid())
    # -I -S: a bare interpreter starts in 10 ms and reads nothing of the environment.
    wrapper = [sys.executable, "-I", "-S", str(TETHER), me, str(int(signum)), uid, gid]
    return [*wrapper, *account.prefix, *command]


def end_leftover(home: Path, name: str, grace_seconds: float = 10) -> bool:
    """End what an earlier start recorded under `name` and left behind; tell whether it lived."""
    record = home / f"{name}.process"
    try:
        left = json.loads(record.read_text())
        pid, mark, signum = int(left["pid"]), left["birth"], int(left["signal"])
    except (OSError, ValueError, KeyError):
        return False
    lived = mark is not None and birth(pid) == mark
    end(pid, mark, signum, grace_seconds)
    record.unlink(missing_ok=True)
    return lived


def open_log(home: Path, name: str) -> IO[bytes]:
    """Open `logs/<name>.log` for appending; one that has grown too long starts anew."""
    folder = home / "logs"
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.log"
    if path.exists() and path.stat().st_size > LOG_LIMIT_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return path.open("ab")


def make_home(home: Path) -> Path:
    """Return `home` as an absolute path, made for the owner alone when it is new."""
    home = home.expanduser().resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return home


@dataclass(slots=True)
class RunningServer:
    """A server of this folder. `url` is what the settings read; `stop` ends it and waits."""

    url: str
    child: Child
    lock: Lock
    temporary: Path | None = None

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self.child.pid

    def is_alive(self) -> bool:
        """Tell whether the server still runs."""
        return self.child.process.poll() is None

    def stop(self, grace_seconds: float = 10) -> None:
        """End the server and leave its data as they are. Safe to call twice."""
        self.child.signal()
        self.child.wait(grace_seconds)
        if self.temporary:
            shutil.rmtree(self.temporary, ignore_errors=True)
        self.lock.release()

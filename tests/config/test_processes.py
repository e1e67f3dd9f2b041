"""Processes that are tied to their starter, found again, and kept alive."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from boxoffice.config.devstack import process
from boxoffice.config.devstack.console import Console
from boxoffice.config.devstack.process import AlreadyRunning, Child, Lock, end_leftover, open_log
from boxoffice.config.devstack.supervisor import Keeper
from tests.config.conftest import eventually, is_running

SLEEP = ["sleep", "600"]


def start(home: Path, *command: str) -> Child:
    return Child.start("it", command, home=home, output=subprocess.DEVNULL)


def test_a_birth_mark_tells_processes_apart(tmp_path: Path) -> None:
    one, two = start(tmp_path, *SLEEP), start(tmp_path, *SLEEP)
    assert process.birth(one.pid) == one.mark
    one.signal()
    eventually(lambda: not is_running(one.pid), "the first ends, though nobody has waited for it")
    for child in (one, two):
        child.signal()
        child.wait(10)
    assert process.birth(two.pid) is None


def test_a_process_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    said = tmp_path / "said"
    stubborn = f"trap '' TERM; echo up > {said}; while :; do sleep 600; done"
    child = start(tmp_path, "sh", "-c", stubborn)
    eventually(said.exists, "the trap is set")
    child.signal()
    child.wait(0.1)
    assert child.process.returncode == -signal.SIGKILL
    assert not child.record.exists()


def test_a_leftover_is_ended_by_its_record(tmp_path: Path) -> None:
    child = start(tmp_path, *SLEEP)
    assert end_leftover(tmp_path, "it") is True
    assert child.process.wait(10) == -signal.SIGTERM
    assert end_leftover(tmp_path, "it") is False


def test_a_recorded_pid_that_is_somebody_else_now_is_spared(tmp_path: Path) -> None:
    child = start(tmp_path, *SLEEP)
    record = json.loads(child.record.read_text())
    child.record.write_text(json.dumps({**record, "birth": "another boot:1"}))
    assert end_leftover(tmp_path, "it") is False
    assert child.process.poll() is None
    child.signal()
    child.wait(10)


@pytest.mark.parametrize("text", ["", "{}", "not json", '{"pid": "x", "birth": 1, "signal": 2}'])
def test_a_broken_record_is_no_leftover(tmp_path: Path, text: str) -> None:
    (tmp_path / "it.process").write_text(text)
    assert end_leftover(tmp_path, "it") is False


def test_a_tethered_command_does_not_start_under_a_foreign_parent(tmp_path: Path) -> None:
    line = process.tether(["touch", str(tmp_path / "ran")], account=process.MYSELF, signum=15)
    line[line.index(str(os.getpid()))] = "1"
    assert subprocess.run(line, check=False).returncode == 1
    assert not (tmp_path / "ran").exists()


def test_a_lock_has_one_holder_and_ends_with_it(tmp_path: Path) -> None:
    lock = Lock(tmp_path / "lock", "taken")
    with pytest.raises(AlreadyRunning, match="taken"):
        Lock(tmp_path / "lock", "taken")
    lock.release()
    lock.release()
    Lock(tmp_path / "lock", "taken").release()


def test_a_log_that_has_grown_too_long_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LOG_LIMIT_BYTES", 3)
    for word in (b"long", b"new"):
        with open_log(tmp_path, "it") as log:
            log.write(word)
    assert (tmp_path / "logs" / "it.log").read_bytes() == b"new"
    assert (tmp_path / "logs" / "it.log.1").read_bytes() == b"long"


def test_a_fallen_process_comes_back_later_each_time(tmp_path: Path) -> None:
    keeper = Keeper("it", lambda: start(tmp_path, "false"))
    pauses = []
    now = 0.0
    for _ in range(7):
        assert keeper.tend(now) is None
        assert keeper.child is not None
        keeper.child.process.wait(10)
        line = keeper.tend(now)
        assert line is not None
        assert line.startswith("it ended with code 1, starting it again in")
        assert keeper.tend(keeper.due_at - 0.01) is None
        assert keeper.child is None
        pauses.append(keeper.due_at - now)
        now = keeper.due_at
    assert pauses == [1, 2, 4, 8, 16, 30, 30]


def test_a_process_that_was_healthy_comes_back_at_once_again(tmp_path: Path) -> None:
    keeper = Keeper("it", lambda: start(tmp_path, "true"), pause=30)
    keeper.tend(0.0)
    assert keeper.child is not None
    keeper.child.process.wait(10)
    keeper.tend(100.0)
    assert keeper.due_at == 101.0


def test_the_console_names_who_speaks_and_keeps_a_log(tmp_path: Path) -> None:
    screen = io.StringIO()
    says = [sys.executable, "-c", "print('um'); print('dois')"]
    child = Child.start("it", says, home=tmp_path, output=subprocess.PIPE)
    assert child.process.stdout is not None
    Console(screen).follow("it", child.process.stdout, open_log(tmp_path, "it")).join()
    child.wait(10)
    assert screen.getvalue() == "it        | um\nit        | dois\n"
    assert (tmp_path / "logs" / "it.log").read_text() == "um\ndois\n"


def test_a_closed_terminal_does_not_stop_the_work() -> None:
    screen = io.StringIO()
    screen.close()
    Console(screen).say("ninguém ouve")

"""Where a watched process dies: at the pass that is named, for the subject that is named."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID

ONE, OTHER = UUID(int=1), UUID(int=2)
PASSES = f"""
from uuid import UUID
from boxoffice.common import crash

for subject in (UUID({str(OTHER)!r}), UUID({str(ONE)!r})):
    with crash.about(subject):
        crash.point("claimed")
        crash.point("call_open")
        crash.point("claimed")
crash.point("answer_open", UUID({str(ONE)!r}))
"""


def passes(home: Path, order: str) -> tuple[int, list[str]]:
    """How a process ends that passes some places, and what it has passed for the watched one."""
    watched = home / str(ONE)
    watched.write_text(f"{order}\n")
    done = subprocess.run(
        [sys.executable, "-c", PASSES],
        env={"BOXOFFICE_CRASH_DIR": str(home), "PYTHONPATH": "."},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    return done.returncode, [line.split()[0] for line in watched.read_text().splitlines()[1:]]


def test_a_watched_subject_has_its_passes_written_down(tmp_path: Path) -> None:
    assert passes(tmp_path, "watch") == (0, ["claimed", "call_open", "claimed", "answer_open"])


def test_the_process_dies_at_the_named_pass(tmp_path: Path) -> None:
    assert passes(tmp_path, "die claimed 2") == (
        -signal.SIGKILL,
        ["claimed", "call_open", "claimed"],
    )


def test_a_pass_that_another_process_has_made_counts(tmp_path: Path) -> None:
    passes(tmp_path, "watch")
    watched = tmp_path / str(ONE)
    before = watched.read_text().splitlines()[1:]
    watched.write_text("\n".join(["die claimed 3", *before, ""]))
    done = subprocess.run(
        [sys.executable, "-c", PASSES],
        env={"BOXOFFICE_CRASH_DIR": str(tmp_path), "PYTHONPATH": "."},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    assert len(watched.read_text().splitlines()) == 1 + len(before) + 1


def test_a_halted_process_goes_on_when_it_is_told_to(tmp_path: Path) -> None:
    watched = tmp_path / str(ONE)
    watched.write_text("stop call_open 1\n")
    process = subprocess.Popen(
        [sys.executable, "-c", PASSES],
        env={"BOXOFFICE_CRASH_DIR": str(tmp_path), "PYTHONPATH": "."},
        cwd=Path(__file__).parents[2],
    )
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    *_, name, _, pid = watched.read_text().split()
    assert (name, int(pid)) == ("call_open", process.pid)
    process.send_signal(signal.SIGCONT)
    assert process.wait() == 0

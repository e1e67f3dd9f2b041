"""The commands of the Makefile, and what it says when it cannot go on."""

import os
import subprocess
from pathlib import Path

from boxoffice.config.devstack.environment import CHECKOUT


def find_python(*folders: Path, home: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(folder) for folder in folders)
    return subprocess.run(
        ["/bin/sh", str(CHECKOUT / "deploy" / "find-python.sh")],
        env={"PATH": path, "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def interpreter(path: Path, exit_code: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\nexit {exit_code}\n")
    path.chmod(0o755)
    return path


def test_the_newest_fitting_python_is_found(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.12", 0)
    newer = interpreter(tmp_path / "bin" / "python3.13", 0)
    assert find_python(tmp_path / "bin", home=tmp_path).stdout.strip() == str(newer)


def test_a_shim_that_refuses_is_passed_over_for_the_version_it_hides(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3.13", 127)
    hidden = interpreter(tmp_path / ".pyenv" / "versions" / "3.13.9" / "bin" / "python", 0)
    assert find_python(tmp_path / "bin", home=tmp_path).stdout.strip() == str(hidden)


def test_a_too_old_python_gets_one_clear_line(tmp_path: Path) -> None:
    interpreter(tmp_path / "bin" / "python3", 1)
    found = find_python(tmp_path / "bin", home=tmp_path)
    assert found.returncode == 1
    assert found.stdout == ""
    assert found.stderr.startswith("BoxOffice Agents needs Python 3.12 or newer")
    assert found.stderr.count("\n") == 1


def test_every_command_is_explained() -> None:
    # What an outer make hands down would have the inner one announce its folder.
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    shown = subprocess.run(
        ["make", "help"],
        cwd=CHECKOUT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[1] for line in shown.stdout.splitlines()}
    commands = {"help", "run", "test", "lint", "format", "types", "lock"}
    assert names == commands | {"faults", "hostile", "bench"}

"""Named places at which the fault tests kill a process, to prove that nothing depends on it.

Armed by ``BOXOFFICE_CRASH_FILE``: the process that reaches the place named in that file removes
the file and dies at once, as by a power cut. Without the variable a place costs nothing.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path


def _never(name: str) -> None:
    """Not armed."""


def _armed(path: Path) -> Callable[[str], None]:
    def point(name: str) -> None:
        try:
            if path.read_text() != name:
                return
            path.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return point


_file = os.environ.get("BOXOFFICE_CRASH_FILE")
point: Callable[[str], None] = _armed(Path(_file)) if _file else _never

"""Named places at which the fault tests kill a process, to prove that nothing depends on it.

Armed by ``BOXOFFICE_CRASH_FILE``: the process that reaches the place named in that file removes
the file and dies at once, as by a power cut. Without the variable a place costs nothing.
``POINTS`` lists them for whoever walks through them; tests/architecture holds it to the source.
"""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

# In the order in which a run comes by.
POINTS: Final = (
    "claimed",
    "model_step_open",
    "model_step_committed",
    "call_open",
    "call_committed",
    "wait_open",
    "wait_committed",
    "results_open",
    "results_committed",
    "answer_open",
    "answer_committed",
)


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

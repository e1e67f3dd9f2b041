"""Named places at which the fault tests kill a process, to prove that nothing depends on it.

Armed by ``BOXOFFICE_CRASH_FILE``: the process that reaches the place named in that file removes
the file and dies at once, as by a power cut. Or by ``BOXOFFICE_CRASH_DIR``, for one subject among
many at a time: a place is passed for a subject (the conversation, unless the caller names another
one), and a subject that has a file there is watched. Each pass is written into it as a line, and
when it begins with ``die NAME COUNT``, the ``COUNT``-th pass of ``NAME`` is the process's last;
``stop NAME COUNT`` only halts it, until somebody sends it SIGCONT. Several orders stand between
semicolons.
Without these variables a place costs nothing.
``POINTS`` lists them for whoever walks through them; tests/architecture holds it to the source.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

# In the order in which a run comes by.
POINTS: Final = (
    "message_open",
    "message_committed",
    "claimed",
    "speaking",
    "model_step_open",
    "model_step_committed",
    "call_open",
    "call_committed",
    "effect_begun",
    "effect_sent",
    "effect_looked_up",
    "effect_end_open",
    "effect_end_committed",
    "wait_open",
    "wait_committed",
    "decision_open",
    "decision_committed",
    "email_begun",
    "email_sent",
    "results_open",
    "results_committed",
    "read_open",
    "read_committed",
    "answer_open",
    "answer_committed",
    "end_open",
    "end_committed",
    "undo_begun",
    "undo_open",
    "undo_committed",
)

_subject: ContextVar[UUID | None] = ContextVar("crash_subject", default=None)


class Point(Protocol):
    """A place that is passed."""

    def __call__(self, name: str, subject: UUID | str | None = None) -> None:
        """Pass ``name``, for ``subject`` or else for what the work is ``about``."""


@contextmanager
def about(subject: UUID) -> Iterator[None]:
    """What is done inside is done for ``subject``."""
    token = _subject.set(subject)
    try:
        yield
    finally:
        _subject.reset(token)


def _never(name: str, subject: UUID | str | None = None) -> None:
    """Not armed."""


def _once(path: Path) -> Point:
    def point(name: str, subject: UUID | str | None = None) -> None:
        try:
            if path.read_text() != name:
                return
            path.unlink()
        except FileNotFoundError:
            return
        os.kill(os.getpid(), signal.SIGKILL)

    return point


_ORDERS = {"die": signal.SIGKILL, "stop": signal.SIGSTOP}


def _by_subject(home: Path) -> Point:
    def point(name: str, subject: UUID | str | None = None) -> None:
        path = home / str(subject or _subject.get())
        try:
            orders, *passed = path.read_text().splitlines()
        except FileNotFoundError:
            return
        with path.open("a") as log:
            log.write(f"{name} {time.time():.3f} {os.getpid()}\n")
        count = 1 + sum(line.split()[0] == name for line in passed)
        for order in orders.split("; "):
            verb, _, place = order.partition(" ")
            if place == f"{name} {count}":
                os.kill(os.getpid(), _ORDERS[verb])

    return point


def _chosen() -> Point:
    if home := os.environ.get("BOXOFFICE_CRASH_DIR"):
        return _by_subject(Path(home))
    if path := os.environ.get("BOXOFFICE_CRASH_FILE"):
        return _once(Path(path))
    return _never


point: Point = _chosen()

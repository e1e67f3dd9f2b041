"""What the person at the console sees: one line at a time, with the name of who said it."""

import sys
import threading
from contextlib import suppress
from typing import IO


class Console:
    """Lines of several processes on one screen and in a log file each."""

    def __init__(self, screen: IO[str] = sys.stdout) -> None:
        self._screen = screen
        self._lock = threading.Lock()

    def say(self, text: str, *, name: str = "boxoffice") -> None:
        """Write `text`, each line after `name`. A closed terminal is no reason to fall over."""
        with self._lock, suppress(OSError, ValueError):
            for line in text.splitlines():
                self._screen.write(f"{name:<10}| {line}\n")
            self._screen.flush()

    def follow(self, name: str, source: IO[bytes], log: IO[bytes]) -> threading.Thread:
        """Copy what a process says to the screen and to its log, until it has nothing to say."""
        thread = threading.Thread(target=self._copy, args=(name, source, log), daemon=True)
        thread.start()
        return thread

    def _copy(self, name: str, source: IO[bytes], log: IO[bytes]) -> None:
        with source, log:
            for line in source:
                with suppress(OSError):
                    log.write(line)
                    log.flush()
                self.say(line.decode(errors="replace").rstrip(), name=name)

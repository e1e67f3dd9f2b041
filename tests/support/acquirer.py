"""The demo's payment provider in a thread of the tests, as an outside party that worker processes
reach by address: it survives them, and meets the troubles that a test wants.

    with Acquirer() as acquirer:
        settings.PAYMENT_URL = acquirer.url
        acquirer.expect(Trouble.DROP_AFTER)          # the next movement's answer is lost
        acquirer.expect(Trouble.ERROR, on="lookup")  # the next lookup fails
        acquirer.expect(Said(403), on="lookup")      # the next lookup is answered with a status
        acquirer.may_answer.clear()                  # requests wait; has_come says that one does
"""

import asyncio
import json
import threading
from collections import defaultdict, deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from aiohttp import web

from boxoffice.acquirer.book import Entry, MemoryBook
from boxoffice.acquirer.server import Trouble, serving

START_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Said:
    """An answer in the place of the provider's own: nothing is moved, nothing is looked for."""

    status: int
    body: Any = field(default_factory=lambda: {"error": "scripted"})

    def as_error(self) -> web.HTTPException:
        """To be raised where the provider begins to work."""
        kind = type("Scripted", (web.HTTPException,), {"status_code": self.status})
        scripted: web.HTTPException = kind(
            text=json.dumps(self.body), content_type="application/json"
        )
        return scripted


class Acquirer:
    """A running provider, what it has moved, and how often it was asked."""

    def __init__(self) -> None:
        self.book = MemoryBook()
        self.url = ""
        self.asked: list[str] = []
        self.has_come = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._troubles: dict[str, deque[Trouble | Said | None]] = defaultdict(deque)
        self._always: dict[str, Trouble | Said] = {}
        self._is_up = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._is_up.wait(START_SECONDS)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    def expect(self, *troubles: Trouble | Said | None, on: str = "move") -> None:
        """What the next requests meet, in order: movements (``move``) or ``lookup``."""
        self._troubles[on].extend(troubles)

    def always(self, trouble: Trouble | Said | None, on: str = "move") -> None:
        """What all requests meet from now on."""
        self._always.pop(on, None)
        if trouble is not None:
            self._always[on] = trouble

    def forget(self) -> None:
        """Nothing is in the book, and nothing is wrong."""
        self.book.entries.clear()
        self.forget_troubles()

    def forget_troubles(self) -> None:
        """Nothing is wrong from now on."""
        self.asked.clear()
        self.has_come.clear()
        self.may_answer.set()
        self._troubles.clear()
        self._always.clear()

    def enter(self, key: str, amount_minor: int) -> None:
        """A charge from before."""
        self.book.enter(Entry(key=key, amount_minor=amount_minor))

    @property
    def moved(self) -> list[Entry]:
        """The money that was really moved, oldest first."""
        return [entry for entry in self.book.entries.values() if not entry.refusal]

    def moved_for(self, key: str) -> int:
        """How much money was moved for a key (centavos)."""
        return sum(entry.amount_minor for entry in self.moved if entry.key == key)

    def _plan(self, request: web.Request) -> Trouble | None:
        kind = "lookup" if request.method == "GET" else "move"
        self.asked.append(kind)
        self.has_come.set()
        assert self.may_answer.wait(START_SECONDS)
        left = self._troubles[kind]
        meets = left.popleft() if left else self._always.get(kind)
        if isinstance(meets, Said):
            raise meets.as_error()
        return meets

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _serve(self) -> None:
        async with serving(self.book, self._plan) as self.url:
            self._is_up.set()
            await self._stop.wait()

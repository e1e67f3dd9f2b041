"""What a page does, without the page: a WebSocket through the real server, tokens counted."""

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

# What browsers offer; whether frames are compressed is the server's choice.
COMPRESS = 15


@dataclass(slots=True, kw_only=True)
class Page:
    """One open page of one conversation, and every token that it was shown."""

    session: aiohttp.ClientSession
    url: str
    headers: dict[str, str]
    latencies: list[tuple[int, float]] = field(default_factory=list)
    """When the model sent each token (ns), and milliseconds from its socket to this page."""
    first: list[float] = field(default_factory=list)
    """These milliseconds of the first token of each answer."""
    frames: int = 0
    finished: int = 0
    recovered: int = 0
    """Answers whose end the database told, because their stream did not."""
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    _positions: dict[str, int] = field(default_factory=dict)
    _socket: aiohttp.ClientWebSocketResponse | None = None

    async def __aenter__(self) -> Self:
        """Open the page."""
        await self._open()
        return self

    async def __aexit__(self, *about: object) -> None:
        """Close it."""
        await self._close()

    async def ask(self, text: str) -> None:
        """Say something, and read on until it is answered."""
        before = self.finished
        await self._live.send_json({"type": "message", "text": text})
        while self.finished == before:
            self._take(await self._live.receive())

    async def ask_and_come_back(self, text: str, after_tokens: int) -> None:
        """The same, with the connection lost when so many tokens of the answer were there."""
        before = self.finished
        wanted: int | None = self.seen.total() + after_tokens
        await self._live.send_json({"type": "message", "text": text})
        while self.finished == before:
            if wanted is not None and self.seen.total() >= wanted:
                wanted = None
                await self._close()
                await self._open()
            self._take(await self._live.receive())

    @property
    def _live(self) -> aiohttp.ClientWebSocketResponse:
        assert self._socket is not None
        return self._socket

    async def _open(self) -> None:
        self._socket = await self.session.ws_connect(
            self.url, headers=self.headers, compress=COMPRESS, max_msg_size=0
        )
        await self._socket.send_json({"type": "resume", "after": self._positions})

    async def _close(self) -> None:
        await self._live.close()

    def _take(self, message: aiohttp.WSMessage) -> None:
        arrived = time.monotonic_ns()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise ConnectionError(f"The socket has ended: {message.type} {message.data}")
        event: dict[str, Any] = json.loads(message.data)
        self.frames += 1
        if "seq" in event:
            self._positions[event["run"]] = event["seq"]
        if event["type"] == "text.delta":
            self._count(event["run"], event["text"], arrived)
        elif event["type"] == "run.finished":
            self.finished += 1
            if event.get("recovered"):
                self.recovered += 1
                self._fill(event["run"], event["answer"])
        elif event["type"] == "error":
            raise RuntimeError(f"The page was told: {event}")

    def _count(self, run: str, text: str, arrived: int) -> None:
        for token in text.split():
            number, _, sent = token.partition(":")
            passed = (arrived - int(sent)) / 1e6
            self.latencies.append((int(sent), passed))
            self.seen[run, int(number)] += 1
            if number == "0":
                self.first.append(passed)

    def _fill(self, run: str, answer: str) -> None:
        """The end brings the whole answer: what was not shown yet is shown with it."""
        for token in answer.split():
            number = int(token.partition(":")[0])
            if not self.seen[run, number]:
                self.seen[run, number] = 1

    def lost(self, tokens: int) -> int:
        """How many tokens of its answers, of ``tokens`` each, it was never shown."""
        return tokens * self.finished - len(self.seen)

    @property
    def repeated(self) -> int:
        """How many tokens it was shown again."""
        return self.seen.total() - len(self.seen)

"""A Messages-API server that costs little: answers of a given number of tokens at a given pace.

`python -m benchmarks.model` prints its address and serves until it is ended. What to answer stands
in the fan's message (`benchmarks.stage.wish`). Every token says which it is and when it was sent
(`<number>:<nanoseconds> ` of the machine's monotonic clock), so that whoever shows it can tell how
long it was under way, and whether one is missing.
"""

import asyncio
import json
import secrets
import sys
import time
from typing import Any, cast

import uvloop

TOOL_ARGUMENTS = "{}"
DEFAULT_WISH = {"steps": 1, "tokens": 10, "delay_ms": 0.0}


class Connection(asyncio.Protocol):
    """One keep-alive connection: requests in, one answer at a time out."""

    def __init__(self) -> None:
        self._received = b""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Nobody listens any more."""
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Collect until a request is whole."""
        self._received += data
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return
        length = _length(head)
        if len(rest) < length:
            return
        self._received = rest[length:]
        self._answer(json.loads(rest[:length]))

    def _answer(self, body: dict[str, Any]) -> None:
        self._wish, turns = read_wish(body)
        self._is_call = turns < self._wish["steps"] - 1 and bool(body.get("tools"))
        self._left = int(self._wish["tokens"])
        self._number = 0
        self._chunk(_opening(str(body["model"])), before=_HEAD)
        self._next_token()

    def _next_token(self) -> None:
        if not self._left:
            self._finish()
            return
        delay = self._wish["delay_ms"] / 1000
        self._timer = self._loop.call_later(delay, self._token)

    def _token(self) -> None:
        text = f"{self._number}:{time.monotonic_ns()} "
        self._number += 1
        self._left -= 1
        self._chunk(_TOKEN % text.encode())
        self._next_token()

    def _finish(self) -> None:
        stop = "tool_use" if self._is_call else "end_turn"
        delta = {"stop_reason": stop, "stop_sequence": None}
        ending = _frame("content_block_stop", index=0)
        if self._is_call:
            ending += _tool_call()
        ending += _frame("message_delta", delta=delta, usage={"output_tokens": self._number})
        ending += _frame("message_stop")
        self._chunk(ending)
        self._transport.write(b"0\r\n\r\n")

    def _chunk(self, payload: bytes, before: bytes = b"") -> None:
        self._transport.write(b"%s%x\r\n%s\r\n" % (before, len(payload), payload))


def read_wish(body: dict[str, Any]) -> tuple[dict[str, Any], int]:
    """What the newest message of the fan asks for, and how many turns have had their results."""
    turns = 0
    for message in reversed(body["messages"]):
        if message["role"] != "user":
            continue
        texts = [b["text"] for b in message["content"] if b["type"] == "text"]
        if texts and texts[-1].startswith("{"):
            return DEFAULT_WISH | json.loads(texts[-1]), turns
        turns += 1
    return dict(DEFAULT_WISH), turns


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return 0


def _frame(event: str, **data: Any) -> bytes:
    return f"event: {event}\ndata: {json.dumps({'type': event, **data})}\n\n".encode()


def _opening(model: str) -> bytes:
    message: dict[str, Any] = {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 1_500, "output_tokens": 1},
    }
    return _frame("message_start", message=message) + _frame(
        "content_block_start", index=0, content_block={"type": "text", "text": ""}
    )


def _tool_call() -> bytes:
    block = {
        "type": "tool_use",
        "id": f"toolu_{secrets.token_hex(12)}",
        "name": "search_events",
        "input": {},
    }
    delta = {"type": "input_json_delta", "partial_json": TOOL_ARGUMENTS}
    return (
        _frame("content_block_start", index=1, content_block=block)
        + _frame("content_block_delta", index=1, delta=delta)
        + _frame("content_block_stop", index=1)
    )


_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    b"cache-control: no-cache\r\nrequest-id: req_benchmark\r\n\r\n"
)
_TOKEN = _frame(
    "content_block_delta", index=0, delta={"type": "text_delta", "text": "TOKEN"}
).replace(b"TOKEN", b"%s")


async def serve() -> None:
    """Listen on a free port of the loopback, say which, and serve for ever."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    host, port = server.sockets[0].getsockname()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve())

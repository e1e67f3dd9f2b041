"""A Messages-API server that answers what a test tells it to.

It runs in a thread with an event loop of its own, on a port of 127.0.0.1, so that the SDK, HTTP
and the event stream stay real, and child processes can use it through `ANTHROPIC_BASE_URL`.

    with ScriptedModel() as model:
        model.script([Reply.tools(("search_events", {})), Reply.text("Three events on Saturday.")])
        ...
        assert last_tool_results(model.requests[-1])

`script` is one queue for everybody; `route` decides from the request alone, which is what many
runs at once need.
"""

import argparse
import asyncio
import copy
import json
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Literal, Self

from aiohttp import web

from agents.llm import wire

type Route = Callable[[dict[str, Any]], Reply]
type Ending = Literal["whole", "error", "stream_error", "cut", "truncated", "hang"]

_SAMPLE = "um dois tres quatro cinco seis sete oito nove dez"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What the server does with one request. Delays are seconds."""

    blocks: tuple[wire.Block, ...] = ()
    ending: Ending = "whole"
    after: int = 0
    status: int = 200
    error_type: str = ""
    message: str = ""
    retry_after: float | None = None
    token_delay: float = 0.0
    first_byte_delay: float = 0.0
    wait_for: threading.Event | None = None

    @classmethod
    def text(cls, text: str, *, token_delay: float = 0.0, first_byte_delay: float = 0.0) -> Self:
        """Answer with a text, one word per delta."""
        return cls(
            blocks=(wire.TextBlock(text),),
            token_delay=token_delay,
            first_byte_delay=first_byte_delay,
        )

    @classmethod
    def tools(
        cls,
        *calls: tuple[str, Mapping[str, Any]],
        text: str = "",
        token_delay: float = 0.0,
        first_byte_delay: float = 0.0,
    ) -> Self:
        """Propose calls, all in one turn, after an optional text."""
        blocks: list[wire.Block] = [wire.TextBlock(text)] if text else []
        blocks += [wire.ToolUseBlock(name, dict(arguments)) for name, arguments in calls]
        return cls(blocks=tuple(blocks), token_delay=token_delay, first_byte_delay=first_byte_delay)

    @classmethod
    def raw_tool(cls, name: str, raw_json: str) -> Self:
        """Propose a call whose arguments are this very text, JSON or not."""
        return cls(blocks=(wire.ToolUseBlock(name, {}, raw_json=raw_json),))

    @classmethod
    def error(
        cls,
        status: int,
        error_type: str,
        message: str = "scripted error",
        *,
        retry_after: float | None = None,
    ) -> Self:
        """Refuse the request with an HTTP status."""
        return cls(
            ending="error",
            status=status,
            error_type=error_type,
            message=message,
            retry_after=retry_after,
        )

    @classmethod
    def stream_error(
        cls, error_type: str, message: str = "scripted error", *, after: int = 2, text: str = ""
    ) -> Self:
        """Send `after` deltas, then an `error` event in the stream."""
        return replace(
            cls._broken("stream_error", after, text), error_type=error_type, message=message
        )

    @classmethod
    def cut(cls, *, after: int, text: str = "", token_delay: float = 0.0) -> Self:
        """Send `after` deltas, then drop the connection."""
        return replace(cls._broken("cut", after, text), token_delay=token_delay)

    @classmethod
    def truncated(cls, *, after: int, text: str = "") -> Self:
        """Send `after` deltas, then end the response properly but without `message_stop`."""
        return cls._broken("truncated", after, text)

    @classmethod
    def hang(cls, *, after: int = 0, text: str = "") -> Self:
        """Send `after` deltas (none: not even headers) and then nothing, until the client goes."""
        return cls._broken("hang", after, text)

    @classmethod
    def _broken(cls, ending: Ending, after: int, text: str) -> Self:
        words = text or " ".join([_SAMPLE] * (1 + after // 10))
        return cls(blocks=(wire.TextBlock(words),), ending=ending, after=after)

    def when(self, event: threading.Event) -> Self:
        """Return this reply, held back (before its first byte) until the event is set."""
        return replace(self, wait_for=event)


class ScriptedModel:
    """A Messages-API server in a thread; use it as a context manager.

    `first_byte_delay` (seconds) is added before every answer. `is_strict` refuses, with the 400
    of the real API, a request whose tool calls and results do not pair. A request for which
    nothing is scripted gets a 400 as well, which the SDK does not retry.
    """

    def __init__(
        self,
        *,
        first_byte_delay: float = 0.0,
        is_strict: bool = True,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._first_byte_delay = first_byte_delay
        self._is_strict = is_strict
        self._address = (host, port)
        self._changed = threading.Condition()
        self._queue: deque[Reply] = deque()
        self._route: Route | None = None
        self._requests: list[dict[str, Any]] = []
        self._headers: list[dict[str, str]] = []
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._stopped: asyncio.Event = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="scripted-model", daemon=True)
        self._base_url = ""

    @property
    def base_url(self) -> str:
        return self._base_url

    @property
    def requests(self) -> list[dict[str, Any]]:
        """The bodies of all `messages` requests so far, retries included, oldest first."""
        with self._changed:
            return copy.deepcopy(self._requests)

    @property
    def request_headers(self) -> list[dict[str, str]]:
        """The headers of the same requests, names in lower case."""
        with self._changed:
            return copy.deepcopy(self._headers)

    @property
    def unused(self) -> int:
        """How many scripted replies nobody asked for yet."""
        with self._changed:
            return len(self._queue)

    def script(self, replies: Iterable[Reply]) -> None:
        """Append replies to the queue that all callers share."""
        with self._changed:
            self._queue.extend(replies)

    def route(self, answer: Route | None) -> None:
        """Answer by a function of the request body; scripted replies, if any, go first.

        It is called on the server's thread and must not block.
        """
        with self._changed:
            self._route = answer

    def reset(self) -> None:
        """Forget the script, the route and the recorded requests."""
        with self._changed:
            self._queue.clear()
            self._route = None
            self._requests.clear()
            self._headers.clear()

    def wait_for_requests(self, count: int, *, timeout: float = 30.0) -> list[dict[str, Any]]:
        """Block until `count` requests have arrived and return them; raises `TimeoutError`."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout):
                raise TimeoutError(f"{len(self._requests)} of {count} requests in {timeout} s")
        return self.requests

    def start(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as failure:  # noqa: BLE001 - raised again by start()
            self._failure = failure
            self._ready.set()
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(client_max_size=64 * 2**20)
        app.router.add_post("/v1/messages", self._on_messages)
        app.router.add_post("/v1/messages/count_tokens", self._on_count_tokens)
        # Cancelling the handler of a client that went away is what ends a `hang`.
        runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, *self._address, backlog=1024).start()
            host, port = runner.addresses[0][:2]
            self._base_url = f"http://{host}:{port}"
            self._ready.set()
            await self._stopped.wait()
        finally:
            await runner.cleanup()

    async def _on_count_tokens(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        return web.json_response({"input_tokens": wire.count_request_tokens(body)})

    async def _on_messages(self, request: web.Request) -> web.StreamResponse:
        try:
            body = json.loads(await request.read())
        except ValueError:
            return _error(Reply.error(400, "invalid_request_error", "The body is not JSON"))
        reply = self._next_reply(body, {k.lower(): v for k, v in request.headers.items()})
        await self._hold_back(reply)
        if reply.ending == "error":
            return _error(reply)
        if reply.ending == "hang" and not reply.after:
            await asyncio.Event().wait()
        message = wire.build_message(body=body, blocks=reply.blocks)
        if body.get("stream"):
            return await _stream(request, message, reply)
        if reply.ending != "whole":
            _drop(request)
        return web.json_response(message.as_json(), headers={"request-id": wire.new_request_id()})

    def _next_reply(self, body: dict[str, Any], headers: dict[str, str]) -> Reply:
        with self._changed:
            self._requests.append(body)
            self._headers.append(headers)
            self._changed.notify_all()
            problem = wire.request_problem(body) if self._is_strict else None
            if problem:
                return Reply.error(400, "invalid_request_error", problem)
            if self._queue:
                return self._queue.popleft()
            route = self._route
        if route is None:
            return Reply.error(400, "invalid_request_error", "Nothing is scripted")
        try:
            return route(copy.deepcopy(body))
        except Exception as failure:  # noqa: BLE001 - the caller must see what its route did
            return Reply.error(400, "invalid_request_error", f"The route failed: {failure!r}")

    async def _hold_back(self, reply: Reply) -> None:
        while reply.wait_for is not None and not reply.wait_for.is_set():  # noqa: ASYNC110
            # The event belongs to the test's thread, not to this loop.
            await asyncio.sleep(0.005)
        delay = self._first_byte_delay + reply.first_byte_delay
        if delay:
            await asyncio.sleep(delay)


def user_texts(body: Mapping[str, Any]) -> list[str]:
    """Return what the fan wrote, message by message, oldest first."""
    texts = []
    for message in body["messages"]:
        if message["role"] == "user":
            parts = [block["text"] for block in wire.content_blocks(message, "text")]
            if parts:
                texts.append("\n".join(parts))
    return texts


def searches(count: int) -> list[Reply]:
    """So many turns of one search, each for something else: a run that gets on."""
    return [Reply.tools(("search_events", {"query": f"Show {n}"})) for n in range(count)]


def last_tool_results(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the `tool_result` blocks of the last message; empty when it has none."""
    return wire.content_blocks(body["messages"][-1], "tool_result")


def tool_names(body: Mapping[str, Any]) -> list[str]:
    """Return the names of the tools that the request offers."""
    return [tool["name"] for tool in body.get("tools") or []]


def _error(reply: Reply) -> web.Response:
    request_id = wire.new_request_id()
    headers = {"request-id": request_id}
    if reply.retry_after is not None:
        headers["retry-after"] = f"{reply.retry_after:g}"
        headers["retry-after-ms"] = str(round(reply.retry_after * 1000))
    body = wire.error_body(reply.error_type, reply.message, request_id=request_id)
    return web.json_response(body, status=reply.status, headers=headers)


async def _stream(request: web.Request, message: wire.Message, reply: Reply) -> web.StreamResponse:
    response = web.StreamResponse(headers=wire.stream_headers(wire.new_request_id()))
    await response.prepare(request)
    deltas = 0
    for frame in message.frames():
        is_over = frame.event == "content_block_stop" or (frame.is_delta and deltas == reply.after)
        if is_over and reply.ending != "whole":
            await _break_off(request, response, reply)
            return response
        if frame.is_delta:
            deltas += 1
            if reply.token_delay:
                await asyncio.sleep(reply.token_delay)
        await response.write(frame.encode())
    return response


async def _break_off(request: web.Request, response: web.StreamResponse, reply: Reply) -> None:
    if reply.ending == "stream_error":
        await response.write(wire.error_frame(reply.error_type, reply.message).encode())
    elif reply.ending == "cut":
        # What was written must reach the client before the connection is reset.
        await asyncio.sleep(0.02)
        _drop(request)
    elif reply.ending == "hang":
        await asyncio.Event().wait()


def _drop(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError


def _steps_route(*, tokens: int, delay: float, steps: int) -> Route:
    text = " ".join((_SAMPLE.split() * (1 + tokens // 10))[:tokens])

    def answer(body: dict[str, Any]) -> Reply:
        done = 0
        for message in reversed(body["messages"]):
            if message["role"] == "user":
                if not wire.content_blocks(message, "tool_result"):
                    break
                done += 1
        if done < steps - 1 and "search_events" in tool_names(body):
            return Reply.tools(("search_events", {}), text=text, token_delay=delay)
        return Reply.text(text, token_delay=delay)

    return answer


def main(argv: list[str] | None = None) -> None:
    """Serve answers of a fixed length until interrupted: the model of the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.scripted_model")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--tokens", type=int, default=60, help="words per answer")
    parser.add_argument("--delay-ms", type=float, default=20.0, help="pause before each word")
    parser.add_argument(
        "--steps", type=int, default=1, help="model calls per turn: all but the last ask for events"
    )
    options = parser.parse_args(argv)
    route = _steps_route(tokens=options.tokens, delay=options.delay_ms / 1000, steps=options.steps)
    model = ScriptedModel(host=options.host, port=options.port)
    model.route(route)
    with model:
        sys.stdout.write(f"{model.base_url}\n")
        sys.stdout.flush()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            return


if __name__ == "__main__":
    main()

"""The one way to a model: the official SDK against any Messages-API endpoint, streamed.

The SDK is asked for the stream's events as plain JSON: a model object for each token costs as much
CPU again as all the rest of its way. A stream that breaks in the middle is tried again from its
beginning.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import anthropic
import httpx2
from django.conf import settings

from agents.llm.demo.server import DemoServer, start_demo_server
from agents.llm.routes import Route, route
from agents.llm.turns import ModelRequest, ModelTurn, ProposedCall, Usage
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.types import JsonObject, is_too_deep, storable

logger = logging.getLogger(__name__)

MAX_TRIES = 3
BACKOFF_SECONDS = 0.5
_BROKEN = (httpx2.HTTPError, aiohttp.ClientError, OSError, json.JSONDecodeError)
_RETRYABLE_TYPES = {"overloaded_error", "rate_limit_error", "api_error", "timeout_error"}


class ModelUnavailable(BoxOfficeError):
    """The model did not answer, after all tries."""

    code = "model_unavailable"
    retryable = True
    status = 503
    hint = "Try again in a moment."


class ModelRefused(BoxOfficeError):
    """The endpoint refuses the request itself (credentials, size, unknown model)."""

    code = "model_refused"
    status = 502


class _StreamBroken(Exception):
    """The stream ended before the message did."""


@dataclass(slots=True)
class _Assembly:
    """A message while its events arrive."""

    blocks: list[JsonObject] = field(default_factory=list)
    json_parts: dict[int, list[str]] = field(default_factory=dict)
    usage: dict[str, int] = field(default_factory=dict)
    stop_reason: str | None = None
    is_over: bool = False
    request_id: str = ""

    def take(self, event: Any) -> str:
        """Add an event; returns the text that it brings, if any.

        Raises ``_StreamBroken`` for an event that is not of the Messages API.
        """
        try:
            return self._take(event)
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise _StreamBroken(f"an event that cannot be read: {error!r}") from error

    def _take(self, event: JsonObject) -> str:
        kind = event["type"]
        if kind == "content_block_delta":
            return self._delta(event["index"], event["delta"])
        if kind == "content_block_start":
            self._start(event["index"], event["content_block"])
        elif kind == "message_start":
            self._count(event["message"]["usage"])
        elif kind == "message_delta":
            self.stop_reason = event["delta"]["stop_reason"]
            self._count(event["usage"])
        elif kind == "message_stop":
            self.is_over = True
        return ""

    def _start(self, index: int, block: JsonObject) -> None:
        if block["type"] == "text":
            self.blocks.append({"type": "text", "text": block["text"] or ""})
        elif block["type"] == "tool_use":
            self.json_parts[index] = []
            self.blocks.append(
                {"type": "tool_use", "id": block["id"], "name": block["name"], "input": {}}
            )
        else:
            self.blocks.append({name: value for name, value in block.items() if value is not None})

    def _delta(self, index: int, delta: JsonObject) -> str:
        if delta["type"] == "text_delta":
            text: str = delta["text"]
            self.blocks[index]["text"] += text
            return text
        if delta["type"] == "input_json_delta":
            self.json_parts[index].append(delta["partial_json"])
        return ""

    def _count(self, usage: JsonObject) -> None:
        for name in (
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ):
            value = usage.get(name)
            if value is not None:
                self.usage[name] = value

    def finish(self) -> ModelTurn:
        """The whole turn; raises ``_StreamBroken`` if the message has not ended."""
        if not self.is_over or self.stop_reason is None:
            raise _StreamBroken("the stream ended before the message")
        calls = []
        for index, block in enumerate(self.blocks):
            if block["type"] == "tool_use":
                arguments = arguments_read("".join(self.json_parts.get(index, [])))
                block["input"] = arguments if isinstance(arguments, dict) else {}
                calls.append(
                    ProposedCall(call_id=block["id"], tool=block["name"], arguments=arguments)
                )
        return ModelTurn(
            # An empty text block is refused by the endpoint when it comes back as history.
            blocks=storable([b for b in self.blocks if b["type"] != "text" or b["text"]]),
            calls=calls,
            stop_reason=self.stop_reason,
            usage=Usage(
                input_tokens=self.usage.get("input_tokens", 0),
                output_tokens=self.usage.get("output_tokens", 0),
                cache_read_tokens=self.usage.get("cache_read_input_tokens", 0),
                cache_write_tokens=self.usage.get("cache_creation_input_tokens", 0),
            ),
            request_id=self.request_id,
        )


def arguments_read(text: str) -> Any:
    """A call's arguments as the model wrote them; ``None`` when that cannot be read as JSON."""
    if not text.strip():
        return {}
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return None if is_too_deep(arguments) else arguments


class Gateway:
    """One SDK client per process and event loop."""

    def __init__(self) -> None:
        self._client: anthropic.AsyncAnthropic | None = None
        self._demo: DemoServer | None = None
        self._lock = asyncio.Lock()

    async def stream(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_restart: Callable[[], None],
    ) -> ModelTurn:
        """Call the model; text is handed on as it comes.

        ``on_restart`` says that text handed on so far is void, because the call begins anew.
        Raises ``ModelUnavailable`` after the last try, ``ModelRefused`` at once.
        """
        client = await self._ready()
        for attempt in range(MAX_TRIES):
            if attempt:
                on_restart()
                # Spread out, so that runs which broke together do not come back together.
                await asyncio.sleep(BACKOFF_SECONDS * 2**attempt * random.uniform(0.5, 1))  # noqa: S311
            try:
                return await self._once(client, request, on_text)
            except (_StreamBroken, *_BROKEN) as error:
                logger.warning("model stream broke (try %d): %r", attempt + 1, error)
            except anthropic.APIConnectionError as error:
                logger.warning("model not reached (try %d): %r", attempt + 1, error)
                break  # the SDK has tried again by itself
            except anthropic.APIStatusError as error:
                if not _may_retry(error):
                    raise _given_up(error) from error
        raise ModelUnavailable("The model could not be reached.")

    async def _once(
        self,
        client: anthropic.AsyncAnthropic,
        request: ModelRequest,
        on_text: Callable[[str], None],
    ) -> ModelTurn:
        assembly = _Assembly()
        options: dict[str, Any] = {"tools": request.tools} if request.tools else {}
        async with client.messages.with_streaming_response.create(
            model=request.model,
            max_tokens=request.max_tokens,
            system=request.system,  # type: ignore[arg-type]
            messages=request.messages,  # type: ignore[arg-type]
            stream=True,
            **options,
        ) as response:
            assembly.request_id = response.request_id or ""
            async for event in await response.parse(to=anthropic.AsyncStream[object]):
                text = assembly.take(event)
                if text:
                    on_text(text)
        return assembly.finish()

    async def _ready(self) -> anthropic.AsyncAnthropic:
        if self._client is None:
            async with self._lock:
                if self._client is None:
                    self._client = await self._connect(route())
        return self._client

    async def _connect(self, target: Route) -> anthropic.AsyncAnthropic:
        base_url = target.base_url
        if target.is_demo:
            self._demo = await start_demo_server(token_delay_ms=settings.DEMO_TOKEN_DELAY_MS)
            base_url = self._demo.base_url
        return anthropic.AsyncAnthropic(
            api_key=target.api_key,
            base_url=base_url,
            max_retries=2,
            timeout=httpx2.Timeout(settings.MODEL_TIMEOUT_SECONDS, connect=5),
            http_client=anthropic.DefaultAioHttpClient(
                limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
            ),
        )

    async def close(self) -> None:
        """Let the connections go."""
        if self._client is not None:
            await self._client.close()
        if self._demo is not None:
            await self._demo.close()


def _may_retry(error: anthropic.APIStatusError) -> bool:
    """Only an error inside a stream (status 200) is ours to retry; the SDK has done the others."""
    return error.status_code == 200 and getattr(error, "type", "") in _RETRYABLE_TYPES


def _given_up(error: anthropic.APIStatusError) -> BoxOfficeError:
    if error.status_code >= 500 or error.status_code in (200, 408, 409, 429):
        return ModelUnavailable("The model could not be reached.")
    logger.error("the model's endpoint refused a request: %s", error.status_code)
    return ModelRefused(f"The model's endpoint refused the request ({error.status_code}).")

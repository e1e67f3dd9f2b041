"""The Messages API on the wire: stream frames, whole messages, errors.

Everything that stands in for the model (the demo model, the scripted model of the tests) speaks
through these functions, so that the SDK under them meets the same bytes as from the real API.
Pure data: nothing here does I/O.
"""

import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

type Json = dict[str, Any]
type StopReason = Literal["end_turn", "tool_use", "max_tokens"]

STATUS_OF_ERROR = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "overloaded_error": 529,
}

CHARACTERS_PER_TOKEN = 4
INPUT_JSON_CHUNK = 16
_WORD = re.compile(r"\s*\S+|\s+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one message, as the API reports them."""

    input_tokens: int
    output_tokens: int

    def as_json(self) -> Json:
        return {
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
            "server_tool_use": None,
            "service_tier": "standard",
        }


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A piece of the answer."""

    text: str

    def as_json(self) -> Json:
        return {"type": "text", "text": self.text}

    def opening(self) -> Json:
        return {"type": "text", "text": ""}

    def deltas(self) -> Iterator[Json]:
        for word in split_words(self.text):
            yield {"type": "text_delta", "text": word}

    @property
    def characters(self) -> int:
        return len(self.text)


@dataclass(frozen=True, slots=True)
class ToolUseBlock:
    """A proposed call. `raw_json`, when given, is streamed in the place of the arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    raw_json: str | None = None
    id: str = field(default_factory=lambda: f"toolu_{secrets.token_hex(12)}")

    def as_json(self) -> Json:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": dict(self.arguments)}

    def opening(self) -> Json:
        return {"type": "tool_use", "id": self.id, "name": self.name, "input": {}}

    def deltas(self) -> Iterator[Json]:
        yield {"type": "input_json_delta", "partial_json": ""}
        text = self.input_json
        for start in range(0, len(text), INPUT_JSON_CHUNK):
            chunk = text[start : start + INPUT_JSON_CHUNK]
            yield {"type": "input_json_delta", "partial_json": chunk}

    @property
    def input_json(self) -> str:
        if self.raw_json is not None:
            return self.raw_json
        return json.dumps(dict(self.arguments), ensure_ascii=False)

    @property
    def characters(self) -> int:
        return len(self.name) + len(self.input_json)


type Block = TextBlock | ToolUseBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One assistant message, ready to be streamed or sent whole."""

    model: str
    blocks: Sequence[Block]
    usage: Usage
    stop_reason: StopReason
    id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(12)}")

    def as_json(self) -> Json:
        return self._envelope(
            [block.as_json() for block in self.blocks], self.stop_reason, self.usage
        )

    def frames(self) -> Iterator["Frame"]:
        """Yield the stream of this message, in the order of the API."""
        opening = Usage(input_tokens=self.usage.input_tokens, output_tokens=1)
        yield Frame("message_start", {"message": self._envelope([], None, opening)})
        for index, block in enumerate(self.blocks):
            yield Frame("content_block_start", {"index": index, "content_block": block.opening()})
            if index == 0:
                yield Frame("ping", {})
            for delta in block.deltas():
                yield Frame("content_block_delta", {"index": index, "delta": delta})
            yield Frame("content_block_stop", {"index": index})
        yield Frame(
            "message_delta",
            {
                "delta": {"stop_reason": self.stop_reason, "stop_sequence": None},
                "usage": {
                    "input_tokens": self.usage.input_tokens,
                    "output_tokens": self.usage.output_tokens,
                },
            },
        )
        yield Frame("message_stop", {})

    def _envelope(self, content: list[Json], stop: StopReason | None, usage: Usage) -> Json:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": content,
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": usage.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Frame:
    """One server-sent event."""

    event: str
    data: Json

    @property
    def is_delta(self) -> bool:
        return self.event == "content_block_delta"

    def encode(self) -> bytes:
        payload = json.dumps({"type": self.event, **self.data}, ensure_ascii=False)
        return f"event: {self.event}\ndata: {payload}\n\n".encode()


def build_message(*, body: Mapping[str, Any], blocks: Sequence[Block]) -> Message:
    """Return the message that answers `body`: usage counted, `max_tokens` respected."""
    kept, stop = _within_limit(blocks, body.get("max_tokens"))
    usage = Usage(
        input_tokens=count_request_tokens(body),
        output_tokens=_tokens(sum(block.characters for block in kept)),
    )
    return Message(model=str(body.get("model", "")), blocks=kept, usage=usage, stop_reason=stop)


def error_body(error_type: str, message: str, *, request_id: str | None = None) -> Json:
    """Return the JSON body of an error answer."""
    body: Json = {"type": "error", "error": {"type": error_type, "message": message}}
    return body if request_id is None else {**body, "request_id": request_id}


def error_frame(error_type: str, message: str) -> Frame:
    """Return the event that ends a stream which broke on the server's side."""
    return Frame("error", {"error": {"type": error_type, "message": message}})


def new_request_id() -> str:
    return f"req_{secrets.token_hex(12)}"


def stream_headers(request_id: str) -> dict[str, str]:
    return {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
        "request-id": request_id,
    }


def count_request_tokens(body: Mapping[str, Any]) -> int:
    """Estimate the input tokens of a request from the text it carries (4 characters each)."""
    parts = (body.get("system"), body.get("messages"), body.get("tools"))
    return _tokens(sum(_characters(part) for part in parts))


def split_words(text: str) -> list[str]:
    """Cut a text into words that join back into it: the "tokens" of a fake stream."""
    return _WORD.findall(text)


def request_problem(body: Any) -> str | None:
    """Say what the API would refuse in this request, or None when it is fine.

    Checked: the required fields, and the pairing of tool calls with their results, which is where
    a client that rebuilds a conversation from storage goes wrong.
    """
    if not isinstance(body, dict):
        return "The request body is not a JSON object"
    if not isinstance(body.get("model"), str) or not body["model"]:
        return "model: Field required"
    max_tokens = body.get("max_tokens")
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        return "max_tokens: Input should be a positive integer"
    return messages_problem(body.get("messages"))


def messages_problem(messages: Any) -> str | None:
    """Say what is wrong with a list of messages, or None."""
    if not isinstance(messages, list) or not messages:
        return "messages: at least one message is required"
    if not all(isinstance(message, dict) for message in messages):
        return "messages: each message is an object"
    if messages[0].get("role") != "user":
        return "messages: first message must use the user role"
    open_calls: list[str] = []
    for index, message in enumerate(messages):
        problem = _message_problem(message, open_calls)
        if problem:
            return f"messages.{index}: {problem}"
        open_calls = [block["id"] for block in content_blocks(message, "tool_use")]
    if open_calls:
        return f"messages: `tool_use` without `tool_result` after it: {', '.join(open_calls)}"
    return None


def content_blocks(message: Mapping[str, Any], kind: str) -> list[Json]:
    """Return the blocks of one kind of a message; plain string content is one text block."""
    content = message.get("content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") == kind]


def _message_problem(message: Json, open_calls: list[str]) -> str | None:
    if message.get("role") not in ("user", "assistant"):
        return "role must be `user` or `assistant`"
    if not message.get("content"):
        return "content must not be empty"
    for block in content_blocks(message, "text"):
        if not isinstance(block.get("text"), str) or not block["text"]:
            return "text content blocks must be non-empty"
    for block in content_blocks(message, "tool_use"):
        if not isinstance(block.get("input"), dict) or not block.get("id"):
            return "tool_use needs an id and an object as input"
    answered = [block.get("tool_use_id") for block in content_blocks(message, "tool_result")]
    missing = [call for call in open_calls if call not in answered]
    if missing:
        return f"`tool_use` ids without `tool_result` blocks: {', '.join(missing)}"
    if any(call not in open_calls for call in answered) or len(set(answered)) != len(answered):
        return "each `tool_result` answers one `tool_use` of the message before, once"
    return None


def _within_limit(blocks: Sequence[Block], limit: Any) -> tuple[list[Block], StopReason]:
    stop: StopReason = "end_turn"
    if any(isinstance(block, ToolUseBlock) for block in blocks):
        stop = "tool_use"
    if not isinstance(limit, int):
        return list(blocks), stop
    room = limit * CHARACTERS_PER_TOKEN
    kept: list[Block] = []
    for block in blocks:
        if block.characters > room:
            # A call that was cut is no call; a text that was cut is still worth reading.
            if isinstance(block, TextBlock) and room:
                kept.append(TextBlock(block.text[:room]))
            return kept, "max_tokens"
        room -= block.characters
        kept.append(block)
    return kept, stop


def _tokens(characters: int) -> int:
    return max(1, -(-characters // CHARACTERS_PER_TOKEN))


def _characters(part: Any) -> int:
    if part is None:
        return 0
    return len(part if isinstance(part, str) else json.dumps(part, ensure_ascii=False))

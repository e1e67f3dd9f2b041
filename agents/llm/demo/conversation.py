"""The request of the Messages API, read as a conversation: turns, calls and their results."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from agents.llm.demo.details import without_pick
from agents.llm.demo.text import detect_language
from agents.llm.wire import Json, content_blocks

_TODAY = re.compile(r"Today:\s*(\d{4}-\d{2}-\d{2})")
_ZONE = re.compile(r"time zone\s+([A-Za-z_+\-]+(?:/[A-Za-z_+\-0-9]+)*)")
_LANGUAGE = re.compile(
    r"(?:(?:language|locale|idioma)\b\W*(?:is\s+)?|\()(?P<language>pt|en|brazilian|portug)"
    r"(?:\w*[^\n]{0,20} if it cannot|\w*\b)",
    re.IGNORECASE,
)
# How a harness tells of calls when it offers no tools: endpoints refuse tool blocks then.
_TOLD_CALL = re.compile(r"^\[called (?P<name>\w+) with (?P<arguments>\{.*\})\]$", re.DOTALL)
_NOT_THE_FAN = "[A person of the box office"
_WRAPPED = re.compile(r"^\s*<tool_output\b[^>]*>(?P<inner>.*?)(?:</tool_output>.*)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Call:
    """One call that the model made, with the result that came back."""

    name: str
    arguments: Json
    result: Json

    @property
    def error(self) -> Json | None:
        error = self.result.get("error")
        if isinstance(error, dict):
            return error
        return {"code": "error", "message": str(error)} if error else None

    @property
    def status(self) -> str:
        return str(self.result.get("status") or "")

    @property
    def is_pending(self) -> bool:
        return self.status.startswith("pending")

    @property
    def code(self) -> str:
        return str((self.error or {}).get("code", "")).lower()

    @property
    def is_denied(self) -> bool:
        """Whether a human said no, as opposed to a rule."""
        return self.code.startswith(("denied", "declined")) or self.status in ("denied", "declined")

    @property
    def reason(self) -> str:
        """The reason a human gave for saying no, or ""."""
        told = self.error or self.result
        message = str(told.get("message", ""))
        _, _, given = message.partition("Reason given:")
        return str(self.result.get("reason") or told.get("reason") or given).strip()

    @property
    def has_succeeded(self) -> bool:
        is_open = self.is_pending or self.status in ("not_run", "running")
        return not (self.error or is_open or self.is_denied)


@dataclass(slots=True)
class Turn:
    """What the fan wrote, the calls that followed, and what the model answered in text."""

    text: str
    calls: list[Call] = field(default_factory=list)
    reply: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """All that the model knows."""

    turns: list[Turn]
    language: str
    today: date
    zone: ZoneInfo
    tools: Mapping[str, Json]


def read_conversation(body: Mapping[str, Any]) -> Conversation:
    """Read a valid request."""
    system = _system_text(body.get("system"))
    turns = _turns(body["messages"])
    zone = _zone(system)
    return Conversation(
        turns=turns,
        language=_language(turns, system),
        today=_today(system, zone),
        zone=zone,
        tools=_offered(body),
    )


def _turns(messages: list[Json]) -> list[Turn]:
    turns = [Turn("")]
    proposed: dict[str, Json] = {}
    for message in messages:
        if message["role"] == "assistant":
            _read_assistant(message, turns[-1], proposed)
        else:
            _read_user(message, turns, proposed)
    return turns[1:] or turns


def _read_assistant(message: Json, turn: Turn, proposed: dict[str, Json]) -> None:
    texts = []
    for block in content_blocks(message, "text"):
        told = _TOLD_CALL.match(str(block["text"]))
        if told is None:
            texts.append(str(block["text"]))
        else:
            use = {"name": told["name"], "input": _read_object(told["arguments"]) or {}}
            proposed[f"told-{len(proposed)}"] = use
    for block in content_blocks(message, "tool_use"):
        proposed[str(block["id"])] = block
    turn.reply = "\n".join(texts).strip()


def _read_user(message: Json, turns: list[Turn], proposed: dict[str, Json]) -> None:
    for block in content_blocks(message, "tool_result"):
        use = proposed.pop(str(block.get("tool_use_id")), None)
        if use is not None:
            turns[-1].calls.append(_call(use, read_result(block)))
    for block in content_blocks(message, "text"):
        text = str(block["text"]).strip()
        if _WRAPPED.match(text):
            told = next((key for key in proposed if key.startswith("told-")), None)
            if told is not None:
                turns[-1].calls.append(_call(proposed.pop(told), read_result({"content": text})))
        elif text and not text.startswith(_NOT_THE_FAN):
            turns.append(Turn(text))


def _call(use: Json, result: Json) -> Call:
    return Call(str(use["name"]), dict(use.get("input") or {}), result)


def read_result(block: Json) -> Json:
    """Return the JSON object of a tool result, wrapped or not; other text as `{"text": …}`."""
    content = block.get("content")
    if isinstance(content, list):
        parts = (part.get("text", "") for part in content if isinstance(part, dict))
        content = "\n".join(str(part) for part in parts)
    text = str(content or "")
    wrapped = _WRAPPED.match(text)
    inner = wrapped["inner"] if wrapped else text
    result = _read_object(inner)
    if result is not None:
        return _unwrapped(result)
    if block.get("is_error"):
        return {"error": {"code": "error", "message": inner.strip(), "retryable": False}}
    return {"text": inner.strip()}


def _read_object(text: str) -> Json | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _unwrapped(result: Json) -> Json:
    """A result that tells of a decision carries what the tool returned inside."""
    inner = result.get("result")
    if isinstance(inner, dict) and not result.get("error"):
        return {**{key: value for key, value in result.items() if key != "result"}, **inner}
    return result


def _system_text(system: Any) -> str:
    if isinstance(system, list):
        return "\n".join(str(part.get("text", "")) for part in system if isinstance(part, dict))
    return str(system or "")


def _language(turns: list[Turn], system: str) -> str:
    for turn in reversed(turns):
        found = detect_language(without_pick(turn.text)[:500])
        if found:
            return found
    match = _LANGUAGE.search(system)
    return "en" if match and match["language"].lower() == "en" else "pt"


def _today(system: str, zone: ZoneInfo) -> date:
    match = _TODAY.search(system)
    if match:
        try:
            return date.fromisoformat(match[1])
        except ValueError:
            pass
    return datetime.now(UTC).astimezone(zone).date()


def _zone(system: str) -> ZoneInfo:
    match = _ZONE.search(system)
    try:
        return ZoneInfo(match[1] if match else "America/Sao_Paulo")
    except (ZoneInfoNotFoundError, ValueError):
        return ZoneInfo("America/Sao_Paulo")


def _offered(body: Mapping[str, Any]) -> dict[str, Json]:
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "none":
        return {}
    tools = body.get("tools") or []
    return {str(tool["name"]): tool for tool in tools if isinstance(tool, dict) and "name" in tool}

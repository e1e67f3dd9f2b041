"""The conversation as the model's messages, built from steps and the ledger."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from agents.models import Message, Run, RunState, Step, StepKind
from boxoffice.common.types import JsonObject
from tools.effects import outcome_data
from tools.models import CallState, ToolCall

MAX_RUNS = 30
_UNFINISHED = {
    CallState.GATED: {"status": "pending"},
    CallState.PROPOSED: {"status": "not_run"},
    CallState.RUNNING: {"status": "running"},
}


class History:
    """Messages in the order of the Messages API; grows only at its end."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A name of everything in here, kept up as it grows."""
        return self._hash.hexdigest()[:32]

    def user_text(self, text: str) -> None:
        """Something that the fan said."""
        self._user([{"type": "text", "text": text}])

    def assistant(self, blocks: list[JsonObject]) -> None:
        """What the model said and asked for; an empty turn leaves no trace."""
        self._add("assistant", blocks)

    def results(self, calls: Iterable[tuple[str, str, JsonObject]]) -> None:
        """Results of calls: ``(call id, tool, data)``, in the order of the calls."""
        self._user([result_block(call_id, tool, data) for call_id, tool, data in calls])

    def _user(self, blocks: list[JsonObject]) -> None:
        self._add("user", blocks)

    def _add(self, role: str, blocks: list[JsonObject]) -> None:
        if not blocks:
            return
        for block in blocks:
            self._hash.update(f"{role}{_as_json(block)}".encode())
        if self.messages and self.messages[-1]["role"] == role:
            self.messages[-1]["content"].extend(blocks)
        else:
            self.messages.append({"role": role, "content": list(blocks)})


def _as_json(value: Any) -> str:
    """The same text for the same value: PostgreSQL gives an object's keys back in its own order."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def result_block(call_id: str, tool: str, data: JsonObject) -> JsonObject:
    """One tool result, delimited; no text in it can end the delimiter."""
    text = _as_json(data).replace("<", "\\u003c")
    block: JsonObject = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": f'<tool_output tool="{_plain(tool)}">\n{text}\n</tool_output>',
    }
    if "error" in data:
        block["is_error"] = True
    return block


def _plain(name: str) -> str:
    return "".join(c for c in name if c.isalnum() or c in "_-.")[:64]


def call_data(call: ToolCall) -> JsonObject:
    """What is to be said of a call at this moment."""
    state = CallState(call.state)
    if state == CallState.GATED and call.approval is not None:
        waits = {"fan": "pending_confirmation", "reviewer": "pending_approval"}
        return {"status": waits[call.approval.gate]}
    return dict(_UNFINISHED.get(state) or outcome_data(call))


def add_run(
    history: History, run: Run, steps: Iterable[Step], calls: Mapping[str, ToolCall]
) -> None:
    """Append a run's steps. Calls without a results step get what is known of them now."""
    open_calls: list[ToolCall] = []
    for step in steps:
        content: dict[str, Any] = step.content
        if step.kind == StepKind.MODEL:
            history.assistant(content["blocks"])
            open_calls = [calls[call_id] for call_id in content["calls"] if call_id in calls]
        elif step.kind == StepKind.RESULTS:
            history.results((c.call_id, c.tool, call_data(c)) for c in open_calls)
            open_calls = []
        elif step.kind == StepKind.INPUT:
            _close(history, open_calls)
            open_calls = []
            for message in content["messages"]:
                history.user_text(message["text"])
        elif step.kind == StepKind.FINAL:
            _close(history, open_calls)
            open_calls = []
            if content.get("partial_text"):
                history.assistant([{"type": "text", "text": content["partial_text"]}])
    if run.state != RunState.RUNNING:
        _close(history, open_calls)


def _close(history: History, calls: list[ToolCall]) -> None:
    history.results((call.call_id, call.tool, call_data(call)) for call in calls)


def add_human(history: History, message: Message) -> None:
    """What a person of the box office wrote to the fan, told to the model as a fact."""
    history.user_text(f"[A person of the box office wrote to the fan: {message.text}]")


def flattened(messages: list[JsonObject]) -> list[JsonObject]:
    """The same history without tool blocks: endpoints refuse those when no tool is offered."""
    return [{**message, "content": [_flat(b) for b in message["content"]]} for message in messages]


def _flat(block: JsonObject) -> JsonObject:
    if block["type"] == "tool_use":
        text = f"[called {block['name']} with {_as_json(block['input'])}]"
        return {"type": "text", "text": text}
    if block["type"] == "tool_result":
        return {"type": "text", "text": block["content"]}
    return block

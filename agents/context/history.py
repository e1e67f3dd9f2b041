"""The conversation as the model's messages, built from steps and the ledger."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from agents.models import Message, Run, RunState, Step, StepKind
from boxoffice.common.types import JsonObject
from tools.effects import outcome_data
from tools.models import CallState, ToolCall

_UNFINISHED = {
    CallState.GATED: {"status": "pending"},
    CallState.PROPOSED: {"status": "not_run"},
    CallState.RUNNING: {"status": "running"},
}
_WAITS = {"fan": "pending_confirmation", "reviewer": "pending_approval"}
# What is said of a call before it is over, and so has none of its result.
_BEFORE_THE_END = [*_UNFINISHED.values(), *({"status": status} for status in _WAITS.values())]


_UNDONE = (
    "This was done, and was taken back when the answer was stopped or failed: it holds no longer. "
    "Do it again if the fan still wants it."
)


class History:
    """Messages in the order of the Messages API; grows only at its end."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self.has_cut_results = False
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
        self.blocks("assistant", blocks)

    def results(self, calls: Iterable[tuple[str, ToolCall, JsonObject]]) -> None:
        """What is said of calls, in their order: ``(the model's id of it, call, data)``."""
        found = list(calls)
        self.has_cut_results |= any("cut" in data for *_, data in found)
        self._user([result_block(call_id, call, data) for call_id, call, data in found])

    def _user(self, blocks: list[JsonObject]) -> None:
        self.blocks("user", blocks)

    def blocks(self, role: str, blocks: list[JsonObject]) -> None:
        """Blocks as the Messages API has them; they join what the same role said just before."""
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


# What looks like the delimiter's bracket, and what nobody sees: signs without a width or that turn
# the direction of writing, and the tags in which whole sentences can be hidden.
_DISGUISES = re.compile(
    r"[\uff1c\ufe64\u2039\u3008\u2329\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


def result_block(call_id: str, call: ToolCall, data: JsonObject) -> JsonObject:
    """One tool result, delimited and labelled with what of it is from outside.

    No text in it can end the delimiter, and none can hide in it.
    """
    text = _as_json(data).replace("<", "\\u003c")
    label = ""
    if call.outside is not None and data not in _BEFORE_THE_END:
        text = _DISGUISES.sub(_written_out, text)
        label = f' outside="{" ".join(_plain(name, "*") for name in call.outside)}"'
    block: JsonObject = {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": f'<tool_output tool="{_plain(call.tool)}"{label}>\n{text}\n</tool_output>',
    }
    if "error" in data:
        block["is_error"] = True
    return block


def _written_out(sign: re.Match[str]) -> str:
    return json.dumps(sign[0])[1:-1]


def _plain(name: str, more: str = "") -> str:
    return "".join(c for c in name if c.isalnum() or c in "_-." or c in more)[:64]


def call_data(call: ToolCall) -> JsonObject:
    """What is to be said of a call at this moment."""
    state = CallState(call.state)
    if state == CallState.GATED and call.approval is not None:
        return {"status": _WAITS[call.approval.gate]}
    return dict(_UNFINISHED.get(state) or outcome_data(call))


def call_data_later(call: ToolCall) -> JsonObject:
    """What is to be said now of a call of a run that is over: it may have been undone since."""
    if call.state == CallState.COMPENSATED or call.undone_since is not None:
        return _undone(call)
    return call_data(call)


def _undone(call: ToolCall) -> JsonObject:
    return {"status": "undone", "message": _UNDONE, "was": outcome_data(call)}


def call_data_as_of(call: ToolCall, moment: datetime) -> JsonObject:
    """What was to be said, at a moment in the past, of a call of a run that was over by then."""
    if call.undone_since is not None and call.undone_since <= moment:
        return _undone(call)
    if call.finished_at is not None and call.finished_at <= moment:
        return outcome_data(call)
    if call.approval is not None and call.approval.created_at <= moment:
        return {"status": _WAITS[call.approval.gate]}
    return dict(_UNFINISHED[CallState.PROPOSED])


type Say = Callable[[ToolCall], JsonObject]


def add_run(
    history: History,
    run: Run,
    steps: Iterable[Step],
    calls: Mapping[str, ToolCall],
    say: Say = call_data,
) -> None:
    """Append a run's steps. Calls without a results step get what ``say`` knows of them (now).

    A forked run begins with the messages that came before the run that it was made from, and its
    copied results are in their steps.
    """
    open_calls: list[ToolCall] = []
    for step in steps:
        content: dict[str, Any] = step.content
        if step.kind == StepKind.MODEL:
            history.assistant(content["blocks"])
            open_calls = [calls[call_id] for call_id in content["calls"] if call_id in calls]
        elif step.kind == StepKind.RESULTS:
            history.blocks("user", content.get("blocks", []))
            history.results((call.call_id, call, say(call)) for call in open_calls)
            open_calls = []
        elif step.kind == StepKind.INPUT:
            _close(history, open_calls, say)
            open_calls = []
            for message in content.get("before", []):
                history.blocks(message["role"], message["content"])
            for message in content["messages"]:
                history.user_text(message["text"])
        elif step.kind == StepKind.FINAL:
            _close(history, open_calls, say)
            open_calls = []
            if content.get("partial_text"):
                history.assistant([{"type": "text", "text": content["partial_text"]}])
    if run.state != RunState.RUNNING:
        _close(history, open_calls, say)


def _close(history: History, calls: list[ToolCall], say: Say) -> None:
    history.results((call.call_id, call, say(call)) for call in calls)


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

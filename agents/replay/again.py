"""Asking the model again: the recorded requests, and the recorded results as long as they fit.

No tool runs. Where the model asks for something else than it did, the replay stops and says how.
Each turn that is kept is ``{"seq", "outcome", "recorded", "today", "differences", "text_diff",
"usage", "cost_usd"}``; the last one's outcome is the replay's.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from enum import StrEnum
from typing import Any
from uuid import UUID

from agents.context.history import History, call_data, flattened
from agents.llm.turns import ModelRequest, ModelTurn
from agents.models import Step, StepKind
from agents.replay.record import Asked, Record
from boxoffice.common.types import JsonObject
from tools.effects import Proposal, calls_draft
from tools.models import ToolCall
from tools.permissions import Caller

type Ask = Callable[[ModelRequest], ModelTurn]


class Outcome(StrEnum):
    """How a turn of today compares with the recorded one."""

    SAME_CALLS = "same_calls"
    SAME_ANSWER = "same_answer"
    OTHER_WORDS = "other_words"  # an answer as well, in other words
    OTHER_ARGUMENTS = "other_arguments"
    OTHER_CALLS = "other_calls"
    ANSWERED = "answered"  # it had called
    CALLED = "called"  # it had answered
    CUT_SHORT = "cut_short"


KEEPS_TO_IT = frozenset({Outcome.SAME_CALLS, Outcome.SAME_ANSWER, Outcome.OTHER_WORDS})


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One turn of today beside the recorded one. ``pairs``: today's call id → recorded call."""

    outcome: Outcome
    pairs: tuple[tuple[str, ToolCall], ...]
    data: JsonObject


@dataclass(slots=True)
class Again:
    """Goes through the model steps of a record, from one on; give it each turn, take the next."""

    record: Record
    caller: Caller
    history: History
    steps: list[tuple[Step, Asked]]

    @classmethod
    def from_step(cls, record: Record, caller: Caller, seq: int) -> "Again":
        """Ready to ask from the first model step at or after ``seq``; ``steps`` may be empty."""
        steps: list[tuple[Step, Asked]] = []
        history = History()
        for step, asked in record.walk():
            if asked is None or step.seq < seq:
                continue
            if not steps:
                for message in asked.told:
                    history.blocks(message["role"], message["content"])
            steps.append((step, asked))
        return cls(record=record, caller=caller, history=history, steps=steps)

    def request(self) -> ModelRequest | None:
        """What the next model step asks; ``None`` at the end, or when its prompt was not kept."""
        if not self.steps:
            return None
        _, asked = self.steps[0]
        if asked.prompt is None or asked.max_tokens is None:
            return None
        messages = self.history.messages
        return ModelRequest(
            model=asked.prompt.model,
            system=asked.system,
            messages=flattened(messages) if asked.is_flattened else messages,
            tools=[tool["offer"] for tool in asked.prompt.tools],
            max_tokens=asked.max_tokens,
        )

    def take(self, turn: ModelTurn) -> Compared:
        """Compare a turn with the recorded one; while they agree, go on with what was recorded."""
        step, _ = self.steps.pop(0)
        recorded = self.record.calls_of(step)
        compared = _compared(step, recorded, turn, self._drafts(turn))
        if compared.outcome not in KEEPS_TO_IT:
            self.steps.clear()
            return compared
        self.history.assistant(turn.blocks)
        self.history.results((call_id, call, call_data(call)) for call_id, call in compared.pairs)
        until = self.steps[0][0].seq if self.steps else step.seq
        for between in self.record.steps:
            if step.seq < between.seq < until and between.kind == StepKind.INPUT:
                for message in between.content["messages"]:
                    self.history.user_text(message["text"])
        return compared

    def _drafts(self, turn: ModelTurn) -> list[ToolCall]:
        """Today's calls as the ledger would have them, for their hashes; they are not stored."""
        run: UUID = self.record.run.pk
        return calls_draft(
            caller=self.caller,
            proposals=[
                Proposal(call_id=c.call_id, tool=c.tool, arguments=c.arguments) for c in turn.calls
            ],
            origin=f"replay:{run}",
            run_id=run,
            conversation_id=self.record.run.conversation_id,
            key_prefix="",
        )


def _compared(
    step: Step, recorded: Sequence[ToolCall], turn: ModelTurn, drafts: Sequence[ToolCall]
) -> Compared:
    left = list(recorded)
    pairs: list[tuple[str, ToolCall]] = []
    extra: list[ToolCall] = []
    for draft in drafts:
        like = next((c for c in left if _key(c) == _key(draft)), None)
        if like is None:
            extra.append(draft)
            continue
        left.remove(like)
        pairs.append((draft.call_id, like))
    said, says = _text(step.content["blocks"]), turn.text
    outcome = _outcome(step, turn, has_calls=bool(recorded), left=left, extra=extra)
    if outcome is Outcome.OTHER_WORDS and said.split() == says.split():
        outcome = Outcome.SAME_ANSWER
    data: JsonObject = {
        "seq": step.seq,
        "outcome": outcome.value,
        "recorded": {"text": said, "calls": [_shown(call) for call in recorded]},
        "today": {"text": says, "calls": [_shown(call) for call in drafts]},
        "differences": _differences(left, extra),
        "text_diff": _text_diff(said, says),
    }
    return Compared(outcome=outcome, pairs=tuple(pairs), data=data)


def _key(call: ToolCall) -> tuple[str, str]:
    return call.tool, call.args_hash


def _outcome(
    step: Step, turn: ModelTurn, *, has_calls: bool, left: list[ToolCall], extra: list[ToolCall]
) -> Outcome:
    if turn.stop_reason == "max_tokens" != step.content["stop_reason"]:
        return Outcome.CUT_SHORT
    if not has_calls:
        return Outcome.CALLED if extra else Outcome.OTHER_WORDS
    if not turn.calls:
        return Outcome.ANSWERED
    if not left and not extra:
        return Outcome.SAME_CALLS
    same_tools = Counter(call.tool for call in left) == Counter(call.tool for call in extra)
    return Outcome.OTHER_ARGUMENTS if same_tools else Outcome.OTHER_CALLS


def _differences(left: Sequence[ToolCall], extra: Sequence[ToolCall]) -> list[JsonObject]:
    """Calls that are missing, new, or of the same tool with other arguments."""
    rest, found = list(extra), []
    for call in left:
        other = next((one for one in rest if one.tool == call.tool), None)
        if other is None:
            found.append({"kind": "missing", **_shown(call)})
            continue
        rest.remove(other)
        found.append(
            {
                "kind": "arguments",
                "tool": call.tool,
                "recorded": call.arguments,
                "today": other.arguments,
                "fields": _fields(call.arguments, other.arguments),
            }
        )
    return found + [{"kind": "new", **_shown(call)} for call in rest]


def _fields(then: Any, now: Any) -> list[str]:
    if not isinstance(then, dict) or not isinstance(now, dict):
        return []
    absent = object()
    return sorted(name for name in {*then, *now} if then.get(name, absent) != now.get(name, absent))


def _shown(call: ToolCall) -> JsonObject:
    return {"tool": call.tool, "arguments": call.arguments}


def _text(blocks: list[JsonObject]) -> str:
    return "".join(block["text"] for block in blocks if block["type"] == "text")


def _text_diff(then: str, now: str) -> list[str]:
    lines = unified_diff(then.splitlines(), now.splitlines(), "recorded", "today", lineterm="", n=1)
    return list(lines)

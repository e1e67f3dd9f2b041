"""A conversation as its page shows it: what was said, and the committed steps of each run.

The page draws this, and then the events that follow it. ``last_step`` of a run tells the page
which steps are in here already.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Prefetch

from agents.models import Conversation, Message, Run, RunState, Speaker, Step, StepKind
from agents.selectors import UNFINISHED, messages_of, runs_of
from approvals.models import ApprovalRequest, Decision
from boxoffice.common.types import JsonObject
from tools.compensation import has_inverse
from tools.effects import outcome_data
from tools.models import CallState, ToolCall, Undo

OPEN_CALLS = (CallState.PROPOSED, CallState.GATED, CallState.RUNNING)
# Older than these is not drawn; the REST API has all of it.
MAX_MESSAGES = 200


def message_data(message: Message) -> JsonObject:
    """A message as the page is told of it."""
    return {
        "id": str(message.pk),
        "speaker": message.speaker,
        "text": message.text,
        "created_at": message.created_at.isoformat(),
        "client_id": message.client_id,
        "run": None if message.run_id is None else str(message.run_id),
    }


def undo_data(undo: Undo) -> JsonObject:
    """What became of the undoing of a call (whose row is loaded), as the page is told of it."""
    return {
        "run": str(undo.run_ref),
        "call": str(undo.call_id),
        "tool": undo.call.tool,
        "state": undo.call.state,
        "undo": undo.state,
    }


def timeline_of(conversation: Conversation) -> JsonObject:
    """Everything that the page shows of a conversation, in order, in at most five queries."""
    newest = messages_of(conversation).reverse()[:MAX_MESSAGES]
    messages = {message.pk: message for message in reversed(newest)}
    wanted = {message.run_id for message in messages.values() if message.run_id is not None}
    runs = {run.pk: run for run in runs_of(conversation).filter(pk__in=wanted)}
    drawer = _Drawer(messages, runs, _calls(runs))
    return {
        "conversation": str(conversation.pk),
        "is_handed_off": conversation.handoff_at is not None,
        "entries": list(drawer.entries()),
    }


def _calls(run_ids: Iterable[UUID]) -> dict[str, ToolCall]:
    decisions = Prefetch("approval__decisions", queryset=Decision.objects.order_by("id"))
    rows = ToolCall.objects.filter(run_ref__in=list(run_ids)).select_related("approval", "undo")
    return {str(call.pk): call for call in rows.prefetch_related(decisions)}


@dataclass(slots=True)
class _Drawer:
    messages: dict[UUID, Message]
    runs: dict[UUID, Run]
    calls: dict[str, ToolCall]

    def entries(self) -> Iterator[JsonObject]:
        """A run stands below the message that began it; what it took up later stands inside."""
        told: set[UUID] = set()
        shown: set[str] = set()
        for message in self.messages.values():
            if message.speaker == Speaker.ASSISTANT or str(message.pk) in shown:
                continue
            yield {"kind": "message", **message_data(message)}
            run = self.runs.get(message.run_id) if message.run_id else None
            if run is None or run.pk in told:
                continue
            told.add(run.pk)
            for entry in self._run(run):
                shown.add(entry.get("id", ""))
                yield entry

    def _run(self, run: Run) -> Iterator[JsonObject]:
        steps = list(run.steps.all())
        head = {
            "kind": "run",
            "run": str(run.pk),
            "state": run.state,
            "is_over": run.state not in UNFINISHED,
            "is_stopping": run.cancel_requested_at is not None and run.state in UNFINISHED,
            "last_step": steps[-1].seq if steps else 0,
            "handoff": any(step.content.get("handoff") for step in steps),
        }
        parts: list[JsonObject] = []
        said: list[str] = []
        for step in steps:
            if step.kind == StepKind.INPUT and step.seq > 1:
                yield {**head, "parts": parts}
                yield from self._taken(step)
                parts = []
            parts += self._parts(step, said)
        yield {**head, "parts": parts}

    def _taken(self, step: Step) -> Iterator[JsonObject]:
        for taken in step.content["messages"]:
            message = self.messages.get(UUID(taken["id"]))
            if message is not None:
                yield {"kind": "message", **message_data(message)}

    def _parts(self, step: Step, said: list[str]) -> Iterator[JsonObject]:
        if step.kind == StepKind.MODEL:
            text = "".join(b["text"] for b in step.content["blocks"] if b["type"] == "text")
            if text.strip():
                yield {"kind": "text", "step": step.seq, "text": text.strip()}
            if not step.content["calls"]:
                said.append(text.strip())
            for call_id in step.content["calls"]:
                if str(call_id) in self.calls:
                    yield _tool(step, self.calls[str(call_id)])
        elif step.kind == StepKind.FINAL and step.content["state"] != RunState.SUCCEEDED:
            text = _remainder(step.content["answer"], said)
            if text:
                yield {"kind": "text", "step": step.seq, "text": text}


def _remainder(answer: str, said: list[str]) -> str:
    """What the end of a run added to that which its steps had said."""
    before = "\n\n".join(text for text in said if text)
    return answer.removeprefix(before).strip()


def _tool(step: Step, call: ToolCall) -> JsonObject:
    data: Any = None if call.state in OPEN_CALLS else outcome_data(call)
    is_error = data is not None and "error" in data
    return {
        "kind": "tool",
        "step": step.seq,
        "call": str(call.pk),
        "tool": call.tool,
        "arguments": call.arguments,
        "state": call.state,
        "summary": data["error"].get("message", "") if is_error else "",
        "data": data,
        "approval": None if call.approval is None else _approval(call.approval),
        "can_undo": call.state == CallState.SUCCEEDED and has_inverse(call.tool),
        "undo": call.undo.state if hasattr(call, "undo") else None,
    }


def _approval(request: ApprovalRequest) -> JsonObject:
    decisions = list(request.decisions.all())
    return {
        "id": str(request.pk),
        "gate": request.gate,
        "state": request.effective_state,
        "expires_at": request.expires_at.isoformat(),
        "arguments": request.effective_arguments,
        "preview": request.effective_preview,
        "note": decisions[-1].note if decisions else "",
    }

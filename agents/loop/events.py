"""The events of a run, as DESIGN names them."""

from agents.models import RunState
from boxoffice.common.types import JsonObject
from tools.effects import outcome_data
from tools.models import ToolCall


def run_in_line() -> JsonObject:
    """The run has waited for a worker for some seconds: others are answered first."""
    return {"type": "run.in_line"}


def run_started(*, epoch: int, is_resumed: bool) -> JsonObject:
    """A worker has taken the run; text that no step has committed is void."""
    return {"type": "run.started", "epoch": epoch, "resumed": is_resumed}


def text_delta(text: str) -> JsonObject:
    """The next piece of text."""
    return {"type": "text.delta", "text": text}


def step_committed(seq: int, kind: str) -> JsonObject:
    """What was said so far stays."""
    return {"type": "step.committed", "step": seq, "kind": kind}


def tool_proposed(call: ToolCall) -> JsonObject:
    """The model asks for a tool."""
    return {
        "type": "tool.proposed",
        "call": str(call.pk),
        "tool": call.tool,
        "arguments": call.arguments,
    }


def tool_result(call: ToolCall) -> JsonObject:
    """A call is over; ``data`` is its result or its error."""
    data = outcome_data(call)
    summary = data["error"].get("message", "") if "error" in data else ""
    return {
        "type": "tool.result",
        "call": str(call.pk),
        "tool": call.tool,
        "state": call.state,
        "summary": summary,
        "data": data,
    }


def approval_requested(call: ToolCall) -> JsonObject:
    """A human is asked; ``call.approval`` is loaded."""
    request = call.approval
    if request is None:
        raise ValueError("A gated call has an approval.")
    return {
        "type": "approval.requested",
        "approval": str(request.pk),
        "gate": request.gate,
        "expires_at": request.expires_at.isoformat(),
        "call": str(call.pk),
        "tool": call.tool,
        "arguments": request.arguments,
        "preview": request.preview,
    }


def run_finished(state: RunState, answer: str, *, is_handoff: bool = False) -> JsonObject:
    """The run is over."""
    return {
        "type": "run.finished",
        "state": str(state),
        "answer": answer,
        "handoff": is_handoff,
    }

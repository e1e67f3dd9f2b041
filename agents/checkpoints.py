"""What a run commits: each function is one transaction under the run's lease.

A write names its epoch and fails with ``LeaseLost`` when the run has been claimed anew, so a
worker that was thought dead can commit nothing more.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from uuid import UUID

from django.db.models import Model

from agents.context.request import Sent, prompt_add
from agents.heirs import pass_on
from agents.leases import Lease, LeaseLost, append, fence, fence_read, leave_add, unit
from agents.llm.turns import ModelTurn
from agents.models import (
    Conversation,
    Message,
    Run,
    RunState,
    Speaker,
    StepKind,
)
from boxoffice.billing.models import UsageEntry
from boxoffice.billing.services import usage_entry
from boxoffice.common import crash
from boxoffice.common.batch import Answer, Batch, Plus
from boxoffice.common.clock import now
from boxoffice.common.types import JsonObject
from tools import compensation, dispatch
from tools.admission import Admission
from tools.effects import Proposal, calls_draft
from tools.models import ToolCall, UndoReason
from tools.permissions import Caller, Grant, grant_ask, grant_read
from tools.remote import told


def _model_step(
    lease: Lease,
    caller: Caller,
    model: str,
    turn: ModelTurn,
    sent: Sent,
    then: Batch | None = None,
) -> tuple[list[ToolCall], int, list[Answer]]:
    then = then or Batch()
    prompt_add(then, tenant_id=lease.tenant_id, sent=sent)
    entry, about, counters = _cost(lease, caller, model, turn)
    calls = calls_draft(
        caller=caller,
        proposals=[
            Proposal(call_id=c.call_id, tool=c.tool, arguments=c.arguments) for c in turn.calls
        ],
        origin=f"run:{lease.run_id}:{lease.seq + 1}",
        run_id=lease.run_id,
        conversation_id=lease.conversation_id,
        key_prefix=f"{lease.conversation_id}:{lease.run_id}.{lease.seq + 1}",
    )
    answers = append(
        lease,
        StepKind.MODEL,
        {
            "blocks": turn.blocks,
            "stop_reason": turn.stop_reason,
            "calls": [str(call.pk) for call in calls],
            "request_id": turn.request_id,
        },
        about={"sent": sent.since(lease.sent), **about},
        counters=counters,
        rows=[entry, *calls],
        then=then,
    )
    lease.sent = sent.as_json()
    return calls, entry.cost_micros, answers


def _cost(
    lease: Lease, caller: Caller, model: str, turn: ModelTurn
) -> tuple[UsageEntry, JsonObject, dict[str, Any]]:
    """What a turn cost: for the ledger of usage, for its step, and for the run."""
    entry = usage_entry(
        tenant_id=lease.tenant_id,
        user_id=caller.user_id,
        run_id=lease.run_id,
        model=model,
        input_tokens=turn.usage.input_tokens,
        output_tokens=turn.usage.output_tokens,
        cache_read_tokens=turn.usage.cache_read_tokens,
        cache_write_tokens=turn.usage.cache_write_tokens,
    )
    about = {"usage": turn.usage.as_json(), "cost_micros": entry.cost_micros}
    counters = {
        "steps_used": Plus(1),
        "input_tokens": Plus(turn.usage.total_input),
        "output_tokens": Plus(turn.usage.output_tokens),
        "cost_micros": Plus(entry.cost_micros),
    }
    return entry, about, counters


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTurn:
    """A turn that ends its run, as a budget is used up: paid for, and not gone on with."""

    caller: Caller
    model: str
    turn: ModelTurn


def model_commit(
    *, lease: Lease, caller: Caller, model: str, turn: ModelTurn, sent: Sent
) -> tuple[list[ToolCall], int]:
    """A turn that asks for tools: the step and its calls. Returns them and the cost (µUSD)."""
    with unit(lease):
        calls, cost_micros, _ = _model_step(lease, caller, model, turn, sent)
        crash.point("model_step_open")
    crash.point("model_step_committed")
    return calls, cost_micros


def results_commit(
    *,
    lease: Lease,
    caller: Caller,
    call_ids: Sequence[UUID],
    remote: Sequence[tuple[UUID, str]] = (),
    handoff: str = "",
) -> tuple[list[JsonObject], Grant]:
    """The results of a turn's calls, and the messages that came meanwhile.

    ``remote`` are those that another party has a part in, with the states in which the model is
    told of them. ``handoff`` names why a person must look at the conversation, although the run
    goes on. Returns the messages, and what the caller may be offered now.
    """
    with unit(lease):
        content: JsonObject = {"calls": [str(call_id) for call_id in call_ids]}
        if handoff:
            _hand_off(lease, handoff)
            content["handoff"] = handoff
        then = _ask(lease, caller)
        waiting, grant = append(lease, StepKind.RESULTS, content, then=then)
        taken = _take_messages(lease, waiting)
        for call_id, state in remote:
            told(call_id=call_id, state=state)
        crash.point("results_open")
    crash.point("results_committed")
    return taken, grant_read(grant)


def read_commit(
    *, lease: Lease, caller: Caller, call_id: UUID, admission: Admission
) -> tuple[dispatch.CallReport, list[JsonObject], Grant]:
    """A turn's only call, which is a read, and its results step: one transaction for both.

    Returns what ``results_commit`` returns behind the call's report. A call that needs a human
    leaves everything as it was, and one that is to be tried again only counts its try.
    """
    taken: list[JsonObject] = []
    with unit(lease):
        report, grant = dispatch.read_run(call_id=call_id, caller=caller, admission=admission)
        if report.outcome is dispatch.Outcome.DONE:
            then = Batch()
            then.add(_WAITING, [lease.tenant_id, lease.run_id])
            (waiting,) = append(lease, StepKind.RESULTS, {"calls": [str(call_id)]}, then=then)
            taken = _take_messages(lease, waiting)
        else:
            fence_read(lease)
        crash.point("read_open")
    crash.point("read_committed")
    return report, taken, grant


_WAITING = """
SELECT id, text FROM agents_message
WHERE tenant_id = %s AND run_id = %s AND speaker = 'fan' AND taken_at IS NULL
ORDER BY id FOR UPDATE
"""


def _ask(lease: Lease, caller: Caller) -> Batch:
    """Ask for the messages that were not taken up, and for the caller's grant."""
    batch = Batch()
    batch.add(_WAITING, [lease.tenant_id, lease.run_id])
    grant_ask(batch, caller)
    return batch


def _take_messages(lease: Lease, waiting: Answer) -> list[JsonObject]:
    if not waiting.rows:
        return []
    taken = [{"id": str(message_id), "text": text} for message_id, text in waiting.rows]
    then = Batch()
    then.update(
        Message,
        changes={"taken_at": now()},
        where={"tenant_id": lease.tenant_id, "id": [row[0] for row in waiting.rows]},
    )
    append(lease, StepKind.INPUT, {"messages": taken}, then=then)
    return taken


def answer_commit(
    *,
    lease: Lease,
    caller: Caller,
    model: str,
    turn: ModelTurn,
    sent: Sent,
    answer: str,
    is_last_step: bool,
) -> tuple[list[JsonObject], Grant]:
    """The last turn: its step, the answer, the end of the run, at once.

    A message that came meanwhile keeps the run going instead: its text is returned, with what the
    caller may be offered now, and nothing has ended. After the last step that is allowed it gets
    a run of its own. The conversation is locked, as it is when a message is posted. Raises
    ``StopRequested``, with nothing committed, when the fan was first.
    """
    with unit(lease):
        _lock_conversation(lease)
        then = _ask(lease, caller)
        _, _, (waiting, grant, *_) = _model_step(lease, caller, model, turn, sent, then=then)
        taken = [] if is_last_step else _take_messages(lease, waiting)
        if not taken:
            _end(lease, RunState.SUCCEEDED, answer, {})
            if waiting.rows:
                pass_on(Run.objects.get(pk=lease.run_id))
        crash.point("answer_open")
    crash.point("answer_committed")
    return taken, grant_read(grant)


def run_end(
    *,
    lease: Lease,
    state: RunState,
    answer: str,
    partial_text: str = "",
    error: JsonObject | None = None,
    handoff: str = "",
    last: LastTurn | None = None,
) -> None:
    """End a run otherwise than by its answer: partial, failed, cancelled.

    ``last`` is a turn that no step of its own keeps. What the run had proposed and not begun is
    closed. ``handoff`` names why a person must go on. What it did is taken back when it failed,
    and when the fan who stopped it wants that. Raises ``StopRequested`` when the fan was first,
    unless that is the end.
    """
    with unit(lease):
        _lock_conversation(lease)
        dispatch.calls_abandon(run_id=lease.run_id, code="run_ended")
        content: JsonObject = {"partial_text": partial_text}
        if error is not None:
            content["error"] = error
        if handoff:
            content["handoff"] = handoff
            _hand_off(lease, handoff)
        _end(lease, state, answer, content, error=error, last=last)
        run = Run.objects.select_related("conversation").get(pk=lease.run_id)
        pass_on(run)
        _plan_undo(run, state)
        crash.point("end_open")
    crash.point("end_committed")


def _plan_undo(run: Run, state: RunState) -> None:
    if state == RunState.FAILED:
        compensation.undo_plan(run_id=run.pk, reason=UndoReason.FAILED, actor="system:agent")
    elif state == RunState.CANCELLED and run.undo_requested_at is not None:
        compensation.undo_plan(
            run_id=run.pk, reason=UndoReason.CANCELLED, actor=run.conversation.owner_key
        )


def _end(
    lease: Lease,
    state: RunState,
    answer: str,
    content: JsonObject,
    error: JsonObject | None = None,
    last: LastTurn | None = None,
) -> None:
    said = Message(
        tenant_id=lease.tenant_id,
        conversation_id=lease.conversation_id,
        run_id=lease.run_id,
        speaker=Speaker.ASSISTANT,
        text=answer,
        is_partial=state != RunState.SUCCEEDED,
        taken_at=now(),
    )
    then = Batch()
    # A run that the fan has stopped comes to no other end.
    unless_stopped = {} if state == RunState.CANCELLED else {"cancel_requested_at": None}
    leave_add(then, lease, state, where=unless_stopped, finished_at=now())
    rows: list[Model] = [said] if answer else []
    about: JsonObject = {}
    counters: dict[str, Any] = {"error": error}
    if last is not None:
        entry, about, cost = _cost(lease, last.caller, last.model, last.turn)
        rows.append(entry)
        counters |= cost
    (moved,) = append(
        lease,
        StepKind.FINAL,
        {"state": state, "answer": answer, **content},
        about=about,
        counters=counters,
        rows=rows,
        then=then,
    )
    if not moved.count:
        _refuse(lease)


def _refuse(lease: Lease) -> NoReturn:
    """Why a run could not be left: it has been stopped, or is another worker's."""
    fence(lease)
    raise LeaseLost(str(lease.run_id))


def _hand_off(lease: Lease, why: str) -> None:
    """Before the run's own row is touched: whoever posts a message locks in this order too."""
    Conversation.objects.filter(pk=lease.conversation_id).update(
        handoff_at=now(), handoff_reason=why
    )


def _lock_conversation(lease: Lease) -> None:
    batch = Batch()
    text = "SELECT 1 FROM agents_conversation WHERE tenant_id = %s AND id = %s FOR UPDATE"
    batch.add(text, [lease.tenant_id, lease.conversation_id])
    batch.send()


def run_wait(*, lease: Lease, caller: Caller, call_ids: Iterable[UUID]) -> list[ToolCall]:
    """Ask the humans and let the run wait, in one transaction. Returns the gated calls.

    When nothing is left to wait for, nothing is returned and the run goes on. Raises
    ``StopRequested`` when the fan was first: nobody is asked then.
    """
    with unit(lease):
        dispatch.calls_gate(call_ids=call_ids, caller=caller, reason="")
        calls = list(
            ToolCall.objects.select_related("approval").filter(
                pk__in=list(call_ids), state="gated", approval__state="pending"
            )
        )
        if calls:
            Conversation.objects.select_for_update().get(pk=lease.conversation_id)
            pass_on(Run.objects.get(pk=lease.run_id))
            _leave(
                lease,
                RunState.WAITING,
                where={"cancel_requested_at": None},
                event_seq=lease.event_seq,
            )
        crash.point("wait_open")
    crash.point("wait_committed")
    return calls


def run_release(*, lease: Lease) -> None:
    """Give the lease back, so that another worker goes on from the last step."""
    with unit(lease):
        _leave(lease, RunState.QUEUED, event_seq=lease.event_seq, handed_out_at=None)


def _leave(
    lease: Lease, state: RunState, where: Mapping[str, Any] | None = None, **changes: Any
) -> None:
    batch = Batch()
    leave_add(batch, lease, state, where=where, **changes)
    (moved,) = batch.send()
    if not moved.count:
        _refuse(lease)

"""What a run commits: each function is one transaction under the run's lease.

A write names its epoch and fails with ``LeaseLost`` when the run has been claimed anew, so a
worker that was thought dead can commit nothing more.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import F, QuerySet
from django.db.models.functions import Now

from agents import signals
from agents.llm.turns import ModelTurn
from agents.models import (
    RUN_MACHINE,
    Conversation,
    Message,
    Run,
    RunState,
    Speaker,
    Step,
    StepKind,
)
from boxoffice.billing.services import usage_record
from boxoffice.common import crash
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from tools import dispatch
from tools.effects import Proposal, calls_propose
from tools.models import ToolCall
from tools.permissions import Caller


class LeaseLost(Exception):
    """The run belongs to another worker, or to nobody, by now."""


class StopRequested(Exception):
    """The fan has stopped the run: nothing more is begun."""


@dataclass(slots=True, kw_only=True)
class Lease:
    """A worker's hold on a run. ``seq`` is the newest committed step's number."""

    run_id: UUID
    tenant_id: UUID
    conversation_id: UUID
    epoch: int
    seq: int
    event_seq: int
    worked_since: float

    def worked_ms(self) -> int:
        """Milliseconds of work since the last commit; counting starts anew."""
        started, self.worked_since = self.worked_since, time.monotonic()
        return int((self.worked_since - started) * 1000)


def lease_end() -> Any:
    """The end of a lease that begins or is renewed now, by the database's clock."""
    return Now() + timedelta(seconds=settings.LEASE_SECONDS)


def run_claim(*, run_id: UUID, owner: str) -> Lease | None:
    """Take a queued run; ``None`` if it is not there to be taken (anymore).

    Also ``None`` while another run of the conversation is at work: the sweep hands it out later.
    """
    rows = Run.objects.filter(pk=run_id, cancel_requested_at=None)
    try:
        with transaction.atomic():
            taken = transition(
                rows,
                RUN_MACHINE,
                RunState.RUNNING,
                lease_owner=owner,
                lease_epoch=F("lease_epoch") + 1,
                lease_until=lease_end(),
            )
    except IntegrityError:
        return None
    if not taken:
        return None
    crash.point("claimed")
    run = Run.objects.get(pk=run_id)
    return Lease(
        run_id=run.pk,
        tenant_id=run.tenant_id,
        conversation_id=run.conversation_id,
        epoch=run.lease_epoch,
        seq=run.last_seq,
        event_seq=run.event_seq,
        worked_since=time.monotonic(),
    )


def _held(lease: Lease) -> Any:
    return Run.objects.filter(pk=lease.run_id, lease_epoch=lease.epoch, state=RunState.RUNNING)


def fence(lease: Lease) -> None:
    """For a write by a tool: the run is held until the transaction ends.

    Raises ``LeaseLost``, or ``StopRequested`` when the fan has stopped the run.
    """
    rows = _held(lease).select_for_update(no_key=True).values_list("cancel_requested_at")
    row = rows.first()
    if row is None:
        raise LeaseLost(str(lease.run_id))
    if row[0] is not None:
        raise StopRequested(str(lease.run_id))


def fence_read(lease: Lease) -> None:
    """For a read: as ``fence``, without holding the row."""
    if not _held(lease).exists():
        raise LeaseLost(str(lease.run_id))


def _advance(lease: Lease, **changes: Any) -> None:
    """Move the run's counters in the transaction of a step; raises ``LeaseLost``."""
    lease.seq += 1
    moved = _held(lease).update(
        last_seq=lease.seq,
        event_seq=lease.event_seq,
        worked_ms=F("worked_ms") + lease.worked_ms(),
        **changes,
    )
    if not moved:
        raise LeaseLost(str(lease.run_id))


def _step(lease: Lease, kind: StepKind, content: JsonObject, **extra: Any) -> Step:
    return Step.objects.create(
        run_id=lease.run_id, seq=lease.seq, epoch=lease.epoch, kind=kind, content=content, **extra
    )


def _model_step(
    lease: Lease, caller: Caller, model: str, turn: ModelTurn
) -> tuple[list[ToolCall], int]:
    entry = usage_record(
        user_id=caller.user_id,
        run_id=lease.run_id,
        model=model,
        input_tokens=turn.usage.input_tokens,
        output_tokens=turn.usage.output_tokens,
        cache_read_tokens=turn.usage.cache_read_tokens,
        cache_write_tokens=turn.usage.cache_write_tokens,
    )
    _advance(
        lease,
        steps_used=F("steps_used") + 1,
        input_tokens=F("input_tokens") + turn.usage.total_input,
        output_tokens=F("output_tokens") + turn.usage.output_tokens,
        cost_micros=F("cost_micros") + entry.cost_micros,
    )
    calls = calls_propose(
        caller=caller,
        proposals=[
            Proposal(call_id=c.call_id, tool=c.tool, arguments=c.arguments) for c in turn.calls
        ],
        origin=f"run:{lease.run_id}:{lease.seq}",
        run_id=lease.run_id,
        conversation_id=lease.conversation_id,
        key_prefix=f"{lease.conversation_id}:{lease.run_id}.{lease.seq}",
    )
    _step(
        lease,
        StepKind.MODEL,
        {
            "blocks": turn.blocks,
            "stop_reason": turn.stop_reason,
            "calls": [str(call.pk) for call in calls],
            "request_id": turn.request_id,
        },
        usage=turn.usage.as_json(),
        cost_micros=entry.cost_micros,
    )
    return calls, entry.cost_micros


def model_commit(
    *, lease: Lease, caller: Caller, model: str, turn: ModelTurn
) -> tuple[list[ToolCall], int]:
    """A turn that asks for tools: the step and its calls. Returns them and the cost (µUSD)."""
    with transaction.atomic():
        calls, cost_micros = _model_step(lease, caller, model, turn)
        crash.point("model_step_open")
    crash.point("model_step_committed")
    return calls, cost_micros


def results_commit(*, lease: Lease, call_ids: Sequence[UUID]) -> list[JsonObject]:
    """The results of a turn's calls, and the messages that came meanwhile (returned)."""
    with transaction.atomic():
        _advance(lease)
        _step(lease, StepKind.RESULTS, {"calls": [str(call_id) for call_id in call_ids]})
        taken = _take_messages(lease)
        crash.point("results_open")
    crash.point("results_committed")
    return taken


def _take_messages(lease: Lease) -> list[JsonObject]:
    waiting = list(_untaken(lease).select_for_update().order_by("id"))
    if not waiting:
        return []
    taken = [{"id": str(message.pk), "text": message.text} for message in waiting]
    _advance(lease)
    _step(lease, StepKind.INPUT, {"messages": taken})
    Message.objects.filter(pk__in=[message.pk for message in waiting]).update(taken_at=now())
    return taken


def _untaken(lease: Lease) -> QuerySet[Message]:
    return Message.objects.filter(run_id=lease.run_id, speaker=Speaker.FAN, taken_at=None)


def _pass_on(lease: Lease) -> None:
    """Messages that this run will not take up become a run of their own, in one transaction."""
    waiting = list(_untaken(lease).select_for_update().order_by("id"))
    if not waiting:
        return
    run = Run.objects.get(pk=lease.run_id)
    heir = Run.objects.create(
        conversation_id=run.conversation_id,
        model=run.model,
        tier=run.tier,
        max_steps=run.max_steps,
        max_output_tokens=run.max_output_tokens,
        max_wall_seconds=run.max_wall_seconds,
        max_cost_micros=run.max_cost_micros,
        last_seq=1,
    )
    said = [{"id": str(message.pk), "text": message.text} for message in waiting]
    Step.objects.create(run=heir, seq=1, epoch=0, kind=StepKind.INPUT, content={"messages": said})
    Message.objects.filter(pk__in=[message.pk for message in waiting]).update(
        run=heir, taken_at=now()
    )
    for message in waiting:
        transaction.on_commit(
            partial(
                signals.message_posted.send,
                sender=Message,
                tenant_id=lease.tenant_id,
                conversation_id=lease.conversation_id,
                message_id=message.pk,
                run_id=heir.pk,
            )
        )


def answer_commit(
    *, lease: Lease, caller: Caller, model: str, turn: ModelTurn, answer: str
) -> list[JsonObject]:
    """The last turn: its step, the answer, the end of the run, at once.

    A message that came meanwhile keeps the run going instead: its text is returned, and nothing
    has ended. The conversation is locked, as it is when a message is posted.
    """
    with transaction.atomic():
        Conversation.objects.select_for_update().get(pk=lease.conversation_id)
        _model_step(lease, caller, model, turn)
        taken = _take_messages(lease)
        if not taken:
            _end(lease, RunState.SUCCEEDED, answer, {})
        crash.point("answer_open")
    crash.point("answer_committed")
    return taken


def run_end(
    *,
    lease: Lease,
    state: RunState,
    answer: str,
    partial_text: str = "",
    error: JsonObject | None = None,
    handoff: str = "",
) -> None:
    """End a run otherwise than by its answer: partial, failed, cancelled.

    What it had proposed and not begun is closed. ``handoff`` names why a person must go on.
    """
    with transaction.atomic():
        Conversation.objects.select_for_update().get(pk=lease.conversation_id)
        dispatch.calls_abandon(run_id=lease.run_id, code="run_ended")
        content: JsonObject = {"partial_text": partial_text}
        if error is not None:
            content["error"] = error
        if handoff:
            content["handoff"] = handoff
            Conversation.objects.filter(pk=lease.conversation_id).update(
                handoff_at=now(), handoff_reason=handoff
            )
        Message.objects.filter(run_id=lease.run_id, speaker=Speaker.FAN, taken_at=None).update(
            taken_at=now()
        )
        _end(lease, state, answer, content, error=error)


def _end(
    lease: Lease,
    state: RunState,
    answer: str,
    content: JsonObject,
    error: JsonObject | None = None,
) -> None:
    _advance(lease, error=error)
    _step(lease, StepKind.FINAL, {"state": state, "answer": answer, **content})
    if answer:
        Message.objects.create(
            conversation_id=lease.conversation_id,
            run_id=lease.run_id,
            speaker=Speaker.ASSISTANT,
            text=answer,
            is_partial=state != RunState.SUCCEEDED,
            taken_at=now(),
        )
    _leave(lease, state, finished_at=now())


def run_wait(*, lease: Lease, caller: Caller, call_ids: Iterable[UUID]) -> list[ToolCall]:
    """Ask the humans and let the run wait, in one transaction. Returns the gated calls.

    When nothing is left to wait for, nothing is returned and the run goes on.
    """
    with transaction.atomic():
        dispatch.calls_gate(call_ids=call_ids, caller=caller, reason="")
        calls = list(
            ToolCall.objects.select_related("approval").filter(
                pk__in=list(call_ids), state="gated", approval__state="pending"
            )
        )
        if calls:
            Conversation.objects.select_for_update().get(pk=lease.conversation_id)
            _pass_on(lease)
            _leave(lease, RunState.WAITING, event_seq=lease.event_seq)
        crash.point("wait_open")
    crash.point("wait_committed")
    return calls


def run_release(*, lease: Lease) -> None:
    """Give the lease back, so that another worker goes on from the last step."""
    with transaction.atomic():
        _leave(lease, RunState.QUEUED, event_seq=lease.event_seq, handed_out_at=None)


def _leave(lease: Lease, state: RunState, **changes: Any) -> None:
    moved = transition(
        _held(lease), RUN_MACHINE, state, lease_owner="", lease_until=None, **changes
    )
    if not moved:
        raise LeaseLost(str(lease.run_id))


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a heartbeat found of one run."""

    run_id: UUID
    epoch: int
    is_cancelled: bool


def heartbeat(*, owner: str, run_ids: Sequence[UUID]) -> list[Beat]:
    """Renew the leases that are still this worker's, in one statement; what is missing is lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agents_run SET lease_until = now() + make_interval(secs => %s) "
            "WHERE id = ANY(%s) AND lease_owner = %s AND state = 'running' "
            "RETURNING id, lease_epoch, cancel_requested_at IS NOT NULL",
            [settings.LEASE_SECONDS, list(run_ids), owner],
        )
        rows = cursor.fetchall()
    return [Beat(run_id=row[0], epoch=row[1], is_cancelled=row[2]) for row in rows]

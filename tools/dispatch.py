"""The only path to an effect.

A call runs in one transaction with its result and with the consumption of its approval: after a
crash it has either happened and is recorded, or it has not happened and can be run. One that
another party has a part in only begins here, and goes on in ``tools.remote``.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from approvals import services as approvals
from boxoffice.common import crash
from boxoffice.common.batch import Batch, loaded
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from tools import failures, gates, guard, registry
from tools.admission import FREE, Admission
from tools.effects import context_of, stand_in_draft
from tools.guard import Verdict
from tools.models import CALL_MACHINE, CallState, Effect, RemoteEffect, ToolCall
from tools.outcomes import (
    CallReport,
    Outcome,
    attempt,
    finish,
    move,
    over,
    result_of,
    sending_of,
    with_decision,
)
from tools.permissions import Caller, Grant, grant_ask, grant_of, grant_read
from tools.spec import Remote, Risk, ToolInput, ToolSpec

__all__ = ["CallReport", "Outcome"]

# How long the sweep leaves a remote effect to the worker that has it, beyond the tool's timeout.
LEFT_ALONE_SECONDS = 30

# Raises when the run is another's by now, else says whether it has read text from outside.
type Fence = Callable[[], bool | None]


def call_run(*, call_id: UUID, caller: Caller, fence: Fence, admission: Admission) -> CallReport:
    """Guard one call and run it if it may run; idempotent for a call that is over.

    ``fence`` is called inside the transaction and raises when the run has been taken over; the call
    is judged as one of a run that has read text from outside if it, or the caller, says so. A call
    that needs a human is not gated here: ``calls_gate`` does that, in the transaction in which its
    run begins to wait. ``admission`` is what Valkey said of the call's rate and circuit; the caller
    tells it the end, and dispatches the call again when the report says so.
    """
    started = time.monotonic()
    with transaction.atomic():
        if fence():
            caller = replace(caller, is_tainted=True)
        call, grant = _opened(call_id, caller)
        report = _run(call, caller, grant, admission, started)
        crash.point("call_open")
    crash.point("call_committed")
    return report


def read_run(*, call_id: UUID, caller: Caller, admission: Admission) -> tuple[CallReport, Grant]:
    """As ``call_run``, for a read inside the caller's transaction, which does its own fencing.

    Returns the caller's grant as well, which was read on the way.
    """
    started = time.monotonic()
    call, grant = _opened(call_id, caller)
    return _run(call, caller, grant, admission, started), grant


def _opened(call_id: UUID, caller: Caller) -> tuple[ToolCall, Grant]:
    batch = Batch()
    batch.select(
        ToolCall, "WHERE tenant_id = %s AND id = %s FOR UPDATE", [caller.tenant_id, call_id]
    )
    grant_ask(batch, caller)
    rows, grant_rows = batch.send()
    (call,) = loaded(ToolCall, rows)
    return call, grant_read(grant_rows)


def _run(
    call: ToolCall, caller: Caller, grant: Grant, admission: Admission, started: float
) -> CallReport:
    if call.state == CallState.RUNNING:
        return _go_on(call)
    if call.state not in (CallState.PROPOSED, CallState.GATED):
        return CallReport(call=call, outcome=Outcome.DONE)
    if call.state == CallState.GATED:
        return _after_gate(call, caller, grant, admission, started)
    verdict = guard.limited(_verdict(call, call.arguments, grant, caller), admission)
    if verdict.effect is Effect.DENY:
        return _refused(call, verdict, caller, grant, admission, started)
    if verdict.effect in (Effect.CONFIRM, Effect.APPROVE):
        return CallReport(call=call, outcome=Outcome.NEEDS_HUMAN)
    return _execute(call, verdict, caller, grant, admission, started)


def _refused(
    call: ToolCall,
    verdict: Verdict,
    caller: Caller,
    grant: Grant,
    admission: Admission,
    started: float,
) -> CallReport:
    """A refusal; what is only out of order for now may have somebody who stands in."""
    if verdict.spec is None or verdict.code != "circuit_open":
        return _refuse(call, verdict, started)
    instead = _stand_in(call, verdict.spec, verdict.error, caller, grant, admission)
    report = _refuse(call, verdict, started, **instead.changes)
    return replace(report, stand_in_heard=instead.heard)


def calls_gate(*, call_ids: Iterable[UUID], caller: Caller, reason: str) -> list[ToolCall]:
    """Ask a human about calls, in the caller's transaction. Returns the calls now gated.

    A call whose verdict is no longer "ask a human" is left ``proposed``, for ``call_run``.
    """
    grant = grant_of(caller)
    gated = []
    for call in ToolCall.objects.select_for_update().filter(pk__in=list(call_ids)).order_by("id"):
        verdict = _verdict(call, call.arguments, grant, caller)
        asks = verdict.effect in (Effect.CONFIRM, Effect.APPROVE)
        if call.state == CallState.PROPOSED and asks and _gate(call, verdict, caller, reason):
            gated.append(call)
    return gated


def _gate(call: ToolCall, verdict: Verdict, caller: Caller, reason: str) -> bool:
    try:
        request = gates.ask(call=call, verdict=verdict, caller=caller, reason=reason)
    except BoxOfficeError as error:
        # What cannot even be shown is not put before a human: the model is told at once.
        finish(call, CallState.DENIED, time.monotonic(), error=error.as_data()["error"])
        return False
    move(
        call,
        CallState.GATED,
        approval_id=request.pk,
        **verdict.columns,
    )
    call.approval = request
    return True


def _after_gate(
    call: ToolCall, caller: Caller, grant: Grant, admission: Admission, started: float
) -> CallReport:
    """A gated call once more: still waiting, refused by its human, or approved."""
    request = call.approval
    if request is None or request.state == "pending":
        return CallReport(call=call, outcome=Outcome.PENDING)
    if request.state != "approved":
        error = gates.refusal(request, is_given_back=gates.give_back(call, caller))
        return finish(call, CallState.DENIED, started, error=error)
    edited = request.edited_arguments
    verdict = _verdict(call, call.arguments if edited is None else edited, grant, caller)
    verdict = guard.limited(verdict, admission)
    if verdict.effect is Effect.DENY:
        approvals.settle(request_id=request.pk, outcome="failed", detail=verdict.error)
        return _refuse(call, verdict, started)
    moved = gates.what_moved(call=call, verdict=verdict, caller=caller, request=request)
    if moved is not None:
        approvals.settle(request_id=request.pk, outcome="failed", detail=moved)
        return finish(call, CallState.DENIED, started, error=moved)
    return _execute(call, verdict, caller, grant, admission, started)


def _verdict(call: ToolCall, arguments: Any, grant: Grant, caller: Caller) -> Verdict:
    return guard.check_call(call=call, arguments=arguments, grant=grant, caller=caller)


def _refuse(call: ToolCall, verdict: Verdict, started: float, **changes: Any) -> CallReport:
    return finish(
        call,
        CallState.DENIED,
        started,
        error=verdict.error,
        **verdict.columns,
        **changes,
    )


def _execute(
    call: ToolCall,
    verdict: Verdict,
    caller: Caller,
    grant: Grant,
    admission: Admission,
    started: float,
    *,
    is_last: bool = False,
) -> CallReport:
    spec, arguments = verdict.parts()
    call.attempts += 1
    if not call.verdict:
        for name, value in verdict.columns.items():
            setattr(call, name, value)
    context = context_of(call, caller)
    if spec.remote is not None:
        return _begin(call, spec, spec.remote, arguments, caller, admission, started)
    result, error = attempt(spec, lambda: result_of(spec, context, arguments))
    if error is None:
        report = over(call, CallState.SUCCEEDED, started, result=with_decision(call, result or {}))
        return replace(report, heard="success")
    if error["code"] not in failures.PARTY_FAILED:
        return replace(over(call, CallState.FAILED, started, error=error), heard="success")
    pause = _pause(call, spec, error)
    if pause is not None and not is_last:
        return _again(call, pause)
    instead = _stand_in(call, spec, error, caller, grant, admission)
    report = over(call, CallState.FAILED, started, error=error, **instead.changes)
    return replace(report, heard="failure", stand_in_heard=instead.heard)


def _pause(call: ToolCall, spec: ToolSpec, error: JsonObject) -> float | None:
    """How long to wait before the next try; ``None`` when there is none.

    A local write is not tried again: it costs what a read costs, and the model can ask anew.
    """
    if not spec.is_read or error["code"] not in failures.RETRYABLE:
        return None
    return failures.pause_before(call.attempts + 1, error.get("retry_after_s"))


def _again(call: ToolCall, pause: float) -> CallReport:
    """The try counts for good, so that a crash in the pause does not begin to count anew."""
    ToolCall.objects.filter(pk=call.pk).update(attempts=call.attempts)
    return CallReport(call=call, outcome=Outcome.RETRY, pause=pause, heard="failure")


@dataclass(frozen=True, slots=True, kw_only=True)
class _StandIn:
    """What another tool gave instead: the result for the failed call, if there is one."""

    changes: JsonObject
    heard: str = "void"


def _stand_in(
    call: ToolCall,
    spec: ToolSpec,
    error: JsonObject,
    caller: Caller,
    grant: Grant,
    admission: Admission,
) -> _StandIn:
    """Let the tool's fallback answer, under the same guard; a call of its own in the ledger."""
    fallback = registry.fallback_of(spec)
    if fallback is None or admission.stand_in is None:
        return _StandIn(changes={})
    started = time.monotonic()
    second = stand_in_draft(call, fallback)
    verdict = _verdict(second, second.arguments, grant, caller)
    if verdict.effect in (Effect.CONFIRM, Effect.APPROVE):
        return _StandIn(changes={})  # a human is asked about what the model proposed, no more
    second.save(force_insert=True)
    if verdict.effect is Effect.DENY:
        _refuse(second, verdict, started)
        return _StandIn(changes={})
    # One try: whoever waits has waited for the other tool already.
    report = _execute(second, verdict, caller, grant, FREE, started, is_last=True)
    if second.result is None:
        return _StandIn(changes={}, heard=report.heard)
    because = {
        "tool": spec.name,
        "error": error["code"],
        "say": f"{spec.name} is out of order; say that this comes from {fallback.name} instead.",
    }
    degraded = {"source": fallback.name} | second.result | {"degraded": True, "because": because}
    changes = {"result": degraded, "outside": second.outside}
    return _StandIn(changes=changes, heard=report.heard)


def _begin(
    call: ToolCall,
    spec: ToolSpec,
    remote: Remote,
    arguments: ToolInput,
    caller: Caller,
    admission: Admission,
    started: float,
) -> CallReport:
    """Write down what another party will be asked for; it is asked after the commit."""
    context = context_of(call, caller)
    request, error = attempt(spec, lambda: remote.begin(context, arguments))
    if request is None:
        return over(call, CallState.FAILED, started, error=error)
    move(
        call,
        CallState.RUNNING,
        attempts=call.attempts,
        **call.judged,
    )
    effect = RemoteEffect.objects.create(
        tenant_id=call.tenant_id,
        call=call,
        provider=remote.provider()[:100],
        request=request,
        circuit="" if admission.circuit is None else admission.circuit.key,
        sent_at=now(),
        due_at=left_alone_until(spec),
    )
    return CallReport(
        call=call, outcome=Outcome.REMOTE, sending=sending_of(call, effect, is_first=True)
    )


def _go_on(call: ToolCall) -> CallReport:
    """Somebody has begun the call and is gone: what became of it is to be looked up."""
    effect = RemoteEffect.objects.get(call=call)
    spec = registry.find(call.tool)
    rows = RemoteEffect.objects.filter(pk=effect.pk)
    rows.update(due_at=left_alone_until(spec))
    call.attempts += 1
    ToolCall.objects.filter(pk=call.pk).update(attempts=call.attempts)
    sending = sending_of(call, effect, is_first=False)
    return CallReport(call=call, outcome=Outcome.REMOTE, sending=sending)


def left_alone_until(spec: ToolSpec | None) -> datetime:
    """Until when a remote effect that somebody works on is not the sweep's."""
    seconds = LEFT_ALONE_SECONDS + (spec.timeout_s if spec else 0)
    return now() + timedelta(seconds=seconds)


def is_remote(tool: str) -> bool:
    """Whether another party has a part in calls of that name."""
    spec = registry.find(tool)
    return spec is not None and spec.remote is not None


def is_read(tool: str) -> bool:
    """Whether a call of that name changes nothing (an unknown one does nothing either)."""
    spec = registry.find(tool)
    return spec is None or spec.risk is Risk.READ


def call_refuse(*, call_id: UUID, code: str, message: str, hint: str, fence: Fence) -> CallReport:
    """Refuse a proposed call for a reason of the loop's own; recorded like the guard's."""
    started = time.monotonic()
    with transaction.atomic():
        fence()
        call = ToolCall.objects.select_for_update().get(pk=call_id)
        if call.state != CallState.PROPOSED:
            return CallReport(call=call, outcome=Outcome.DONE)
        verdict = Verdict(effect=Effect.DENY, code=code, message=message, hint=hint)
        return _refuse(call, verdict, started)


def calls_abandon(*, run_id: UUID, code: str) -> int:
    """Close what an ended run had proposed and not begun, or still asks a human about.

    Returns how many calls were closed.
    """
    rows = ToolCall.objects.filter(run_ref=run_id)
    error = {
        "code": code,
        "message": "The run ended before this call was run.",
        "retryable": False,
        "hint": "",
    }
    return gates.abandon(run_id=run_id, error=error) + transition(
        rows,
        CALL_MACHINE,
        CallState.DENIED,
        only_from=CallState.PROPOSED,
        verdict=Effect.DENY,
        reason_code=code,
        error=error,
        finished_at=now(),
    )

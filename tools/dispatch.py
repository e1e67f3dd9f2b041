"""The only path to an effect.

A call runs in one transaction with its result and with the consumption of its approval: after a
crash it has either happened and is recorded, or it has not happened and can be run.
"""

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from pydantic import ValidationError

from approvals import services as approvals
from boxoffice.common import crash
from boxoffice.common.batch import Batch, loaded
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.transitions import transition, transition_add
from boxoffice.common.types import JsonObject
from tools import gates, guard, registry
from tools.effects import context_of
from tools.guard import Verdict
from tools.models import CALL_MACHINE, CallState, Effect, ToolCall
from tools.permissions import Caller, Grant, grant_ask, grant_of, grant_read
from tools.spec import Risk, ToolSpec

logger = logging.getLogger(__name__)

TOOL_FAILED: JsonObject = {
    "code": "tool_failed",
    "message": "This does not work at the moment; nothing was changed.",
    "retryable": False,
    "hint": "Say so, and offer to hand over to a person of the box office.",
}

type Fence = Callable[[], None]


class Outcome(StrEnum):
    """What ``call_run`` found or did."""

    DONE = "done"
    NEEDS_HUMAN = "needs_human"
    PENDING = "pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """One call after dispatch. ``call`` is over when ``outcome`` is ``DONE``."""

    call: ToolCall
    outcome: Outcome


def call_run(*, call_id: UUID, caller: Caller, fence: Fence) -> CallReport:
    """Guard one call and run it if it may run; idempotent for a call that is over.

    ``fence`` is called inside the transaction and raises when the run has been taken over. A call
    that needs a human is not gated here: ``calls_gate`` does that, in the transaction in which its
    run begins to wait.
    """
    started = time.monotonic()
    with transaction.atomic():
        fence()
        call, grant = _opened(call_id, caller)
        report = _run(call, caller, grant, started)
        crash.point("call_open")
    crash.point("call_committed")
    return report


def read_run(*, call_id: UUID, caller: Caller) -> tuple[CallReport, Grant]:
    """As ``call_run``, for a read inside the caller's transaction, which does its own fencing.

    Returns the caller's grant as well, which was read on the way.
    """
    started = time.monotonic()
    call, grant = _opened(call_id, caller)
    return _run(call, caller, grant, started), grant


def _opened(call_id: UUID, caller: Caller) -> tuple[ToolCall, Grant]:
    batch = Batch()
    batch.select(
        ToolCall, "WHERE tenant_id = %s AND id = %s FOR UPDATE", [caller.tenant_id, call_id]
    )
    grant_ask(batch, caller)
    rows, grant_rows = batch.send()
    (call,) = loaded(ToolCall, rows)
    return call, grant_read(grant_rows)


def _run(call: ToolCall, caller: Caller, grant: Grant, started: float) -> CallReport:
    if call.state not in (CallState.PROPOSED, CallState.GATED):
        return CallReport(call=call, outcome=Outcome.DONE)
    if call.state == CallState.GATED:
        return _after_gate(call, caller, grant, started)
    verdict = _verdict(call, call.arguments, grant)
    if verdict.effect is Effect.DENY:
        return _refuse(call, verdict, started)
    if verdict.effect in (Effect.CONFIRM, Effect.APPROVE):
        return CallReport(call=call, outcome=Outcome.NEEDS_HUMAN)
    return _execute(call, verdict, caller, started)


def calls_gate(*, call_ids: Iterable[UUID], caller: Caller, reason: str) -> list[ToolCall]:
    """Ask a human about calls, in the caller's transaction. Returns the calls now gated.

    A call whose verdict is no longer "ask a human" is left ``proposed``, for ``call_run``.
    """
    grant = grant_of(caller)
    gated = []
    for call in ToolCall.objects.select_for_update().filter(pk__in=list(call_ids)).order_by("id"):
        verdict = _verdict(call, call.arguments, grant)
        asks = verdict.effect in (Effect.CONFIRM, Effect.APPROVE)
        if call.state == CallState.PROPOSED and asks and _gate(call, verdict, caller, reason):
            gated.append(call)
    return gated


def _gate(call: ToolCall, verdict: Verdict, caller: Caller, reason: str) -> bool:
    try:
        request = gates.ask(call=call, verdict=verdict, caller=caller, reason=reason)
    except BoxOfficeError as error:
        # What cannot even be shown is not put before a human: the model is told at once.
        _finish(call, CallState.DENIED, time.monotonic(), error=error.as_data()["error"])
        return False
    _move(
        call,
        CallState.GATED,
        approval_id=request.pk,
        verdict=verdict.effect,
        reason_code=verdict.code,
        policy_version=verdict.policy_version,
    )
    call.approval = request
    return True


def _after_gate(call: ToolCall, caller: Caller, grant: Grant, started: float) -> CallReport:
    """A gated call once more: still waiting, refused by its human, or approved."""
    request = call.approval
    if request is None or request.state == "pending":
        return CallReport(call=call, outcome=Outcome.PENDING)
    if request.state != "approved":
        gates.give_back(call, caller)
        return _finish(call, CallState.DENIED, started, error=gates.refusal(request))
    edited = request.edited_arguments
    verdict = _verdict(call, call.arguments if edited is None else edited, grant)
    if verdict.effect is Effect.DENY:
        approvals.settle(request_id=request.pk, outcome="failed", detail=verdict.error)
        return _refuse(call, verdict, started)
    moved = gates.what_moved(call=call, verdict=verdict, caller=caller, request=request)
    if moved is not None:
        approvals.settle(request_id=request.pk, outcome="failed", detail=moved)
        return _finish(call, CallState.DENIED, started, error=moved)
    return _execute(call, verdict, caller, started)


def _verdict(call: ToolCall, arguments: Any, grant: Grant) -> Verdict:
    return guard.check_call(call=call, arguments=arguments, grant=grant)


def _refuse(call: ToolCall, verdict: Verdict, started: float) -> CallReport:
    return _finish(
        call,
        CallState.DENIED,
        started,
        error=verdict.error,
        verdict=Effect.DENY,
        reason_code=verdict.code,
        policy_version=verdict.policy_version,
    )


def _execute(call: ToolCall, verdict: Verdict, caller: Caller, started: float) -> CallReport:
    spec, arguments = verdict.parts()
    call.attempts += 1
    if not call.verdict:
        call.verdict, call.reason_code = verdict.effect, verdict.code
        call.policy_version = verdict.policy_version
    try:
        with transaction.atomic():
            connection.limit_statements(spec.timeout_s)  # type: ignore[attr-defined]
            output = spec.run(context_of(call, caller), arguments)
            result = output.model_dump(mode="json")
    except BoxOfficeError as error:
        return _over(call, CallState.FAILED, started, error=error.as_data()["error"])
    except ValidationError:
        return _over(call, CallState.FAILED, started, error=_bad_result(spec))
    except DatabaseError as error:
        if not _is_statement_timeout(error):
            raise
        return _over(call, CallState.FAILED, started, error=_timed_out(spec))
    except Exception:
        logger.exception("tool %s failed (call %s)", spec.name, call.pk)
        return _over(call, CallState.FAILED, started, error=TOOL_FAILED)
    return _over(call, CallState.SUCCEEDED, started, result=_with_decision(call, result))


def _over(call: ToolCall, state: CallState, started: float, **changes: Any) -> CallReport:
    """Store the outcome and, in the same transaction, that its approval has been used."""
    report = _finish(
        call,
        state,
        started,
        attempts=call.attempts,
        verdict=call.verdict,
        reason_code=call.reason_code,
        policy_version=call.policy_version,
        **changes,
    )
    if call.approval is not None:
        approvals.settle(
            request_id=call.approval.pk,
            outcome="executed" if state == CallState.SUCCEEDED else "failed",
            detail=call.error or {},
        )
    return report


def _with_decision(call: ToolCall, result: JsonObject) -> JsonObject:
    """What the model is told of a decision: by which role, and what was changed."""
    request = call.approval
    if request is None:
        return result
    by = "fan" if request.gate == "fan" else "reviewer"
    decision: JsonObject = {"approved_by": by}
    if request.edited_arguments is not None:
        decision["arguments_changed_to"] = request.edited_arguments
    return result | {"decision": decision}


def _is_statement_timeout(error: DatabaseError) -> bool:
    return getattr(error.__cause__, "sqlstate", "") == "57014"


def _timed_out(spec: ToolSpec) -> JsonObject:
    return {
        "code": "timeout",
        "message": f"{spec.name} took longer than {spec.timeout_s:g} seconds and was stopped.",
        "retryable": True,
        "hint": "Nothing was changed. Try once more, or ask for less.",
    }


def _bad_result(spec: ToolSpec) -> JsonObject:
    return {
        "code": "invalid_result",
        "message": f"{spec.name} gave a result that does not fit its contract.",
        "retryable": False,
        "hint": "Nothing was changed. Use another way, or hand over to a person.",
    }


def _finish(call: ToolCall, state: CallState, started: float, **changes: Any) -> CallReport:
    latency = int((time.monotonic() - started) * 1000)
    _move(call, state, latency_ms=latency, finished_at=now(), **changes)
    return CallReport(call=call, outcome=Outcome.DONE)


def _move(call: ToolCall, state: CallState, **changes: Any) -> None:
    """One guarded move of a row that this transaction has locked, mirrored on the instance."""
    batch = Batch()
    where = {"tenant_id": call.tenant_id, "id": call.pk}
    transition_add(batch, ToolCall, CALL_MACHINE, state, where=where, changes=changes)
    (moved,) = batch.send()
    if moved.count != 1:
        raise RuntimeError(f"Tool call {call.pk} could not become {state}.")
    for name, value in {"state": state, **changes}.items():
        setattr(call, name, value)


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
    """Close what an ended run had proposed and not begun; returns how many calls."""
    rows = ToolCall.objects.filter(run_ref=run_id)
    error = {
        "code": code,
        "message": "The run ended before this call was run.",
        "retryable": False,
        "hint": "",
    }
    return transition(
        rows,
        CALL_MACHINE,
        CallState.DENIED,
        only_from=CallState.PROPOSED,
        verdict=Effect.DENY,
        reason_code=code,
        error=error,
        finished_at=now(),
    )

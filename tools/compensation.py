"""Taking back what a run did, when it is stopped or fails: newest first, each effect once.

What is to be undone is noted in the transaction that ends the run, so that no crash forgets it.
The inverse is a call like any other, made in the fan's name through ``tools.dispatch``; its row,
its effect, and the end of the undoing commit together.
"""

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils.translation import gettext as _

from boxoffice.audit.services import record
from boxoffice.common import crash
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, Conflict, NotFound
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.principals import Principal
from boxoffice.tenancy.scope import current_tenant_id, operator_scope, tenant_scope
from tools import dispatch, registry, signals
from tools.admission import FREE
from tools.effects import Proposal, caller_of, calls_propose, context_of
from tools.failures import failed
from tools.models import (
    CALL_MACHINE,
    UNDO_MACHINE,
    CallState,
    ToolCall,
    Undo,
    UndoReason,
    UndoState,
)
from tools.notes import note_checked
from tools.permissions import Caller

logger = logging.getLogger(__name__)

MAX_TRIES = 5
BACKOFF_SECONDS = 1.0
# How often it is seen whether there is something to undo, while that is not known yet.
NOT_YET_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 60.0
RUNS_AT_ONCE = 200
ACTOR = "system:undo"
# Of these it is not known yet whether there is an effect.
OPEN = (CallState.RUNNING, CallState.UNKNOWN)


class CannotUndo(BoxOfficeError):
    """The inverse did not run; the undoing is tried again, or shown to a person."""

    code = "undo_failed"


def undo_plan(*, run_id: UUID, reason: UndoReason, actor: str) -> int:
    """Note what a run did and what can be undone of it, in the caller's transaction.

    Each effect is noted once, however often this is called. A call whose outcome is not known yet
    is noted too, and undone if it turns out to have happened. Returns how many were noted now.
    """
    calls = ToolCall.objects.filter(
        run_ref=run_id, state__in=[CallState.SUCCEEDED, *OPEN], undo=None
    ).order_by("-id")
    moment = now()
    rows = [
        Undo(
            tenant_id=call.tenant_id,
            call=call,
            run_ref=run_id,
            conversation_ref=call.conversation_ref,
            reason=reason,
            next_attempt_at=moment,
        )
        for call in calls
        if has_inverse(call.tool)
    ]
    if not rows:
        return 0
    Undo.objects.bulk_create(rows)
    record(
        action="tools.undo.planned",
        actor=actor,
        target=f"run:{run_id}",
        details={"reason": reason, "calls": [str(row.call_id) for row in rows]},
    )
    _wake(run_id)
    return len(rows)


def has_inverse(tool: str) -> bool:
    """Whether what the tool does can be undone by another call."""
    spec = registry.find(tool)
    return spec is not None and spec.inverse is not None


def undone_since(run_ids: Iterable[UUID]) -> dict[UUID, datetime]:
    """Since when calls of these runs are to be, or have been, undone."""
    rows = Undo.objects.filter(
        run_ref__in=list(run_ids), state__in=[UndoState.DUE, UndoState.UNDONE]
    )
    return dict(rows.values_list("call_id", "created_at"))


def undo_run(*, run_id: UUID) -> int:
    """Undo what is due of one run, newest first, in the tenant's scope. Returns how many ended.

    Stops at the first that did not work: what is older waits for it until it has been given up.
    """
    ended = 0
    while (found := _due().filter(run_ref=run_id).order_by("-call_id").first()) is not None:
        with crash.about(found.conversation_ref or run_id):
            if not _undo(found.pk):
                break
        ended += 1
    return ended


def undo_due() -> int:
    """Undo what is due in all tenants: later tries, and what a lost signal left behind."""
    with operator_scope("effects that are to be undone"):
        due = _due().order_by("next_attempt_at").values_list("tenant_id", "run_ref")
        runs = list(due[:RUNS_AT_ONCE])
    ended = 0
    for tenant_id, run_id in runs:
        with tenant_scope(tenant_id):
            ended += undo_run(run_id=run_id)
    return ended


def undos_stuck() -> QuerySet[Undo]:
    """What the machine gave up and a person has to see to; in the open scope."""
    rows: QuerySet[Undo] = Undo.objects.filter(state=UndoState.STUCK).select_related("call__user")
    return rows


def undo_get(*, undo_id: UUID, by: Principal) -> Undo:
    """An effect that is to be, or was, taken back, for who may settle it.

    Raises ``NotFound``, to others too.
    """
    rows = Undo.objects.select_related("call__user")
    undo: Undo | None = rows.filter(pk=undo_id, tenant_id=by.tenant_id).first()
    if undo is None or not by.may("configure"):
        raise NotFound(_("There is no such effect to undo."))
    return undo


def undo_retry(*, undo_id: UUID, actor: str) -> None:
    """Let the machine try again what it gave up. Raises ``Conflict`` unless it has."""
    with transaction.atomic():
        undo = _unstick(undo_id, UndoState.DUE, attempts=0, next_attempt_at=now())
        record(action="tools.undo.retried", actor=actor, target=_target(undo))
        _wake(undo.run_ref)


def undo_settle(*, undo_id: UUID, note: str, actor: str) -> None:
    """Close what the machine gave up: a person has seen to it, and says how.

    Raises ``InvalidInput`` without a note, ``Conflict`` unless it had been given up.
    """
    note = note_checked(note, hint=_("Say what was done about it."))
    with transaction.atomic():
        undo = _unstick(undo_id, UndoState.SETTLED, note=note, finished_at=now())
        record(
            action="tools.undo.settled", actor=actor, target=_target(undo), details={"note": note}
        )
        _tell(undo)


def _unstick(undo_id: UUID, state: UndoState, **changes: Any) -> Undo:
    rows = Undo.objects.filter(pk=undo_id)
    if not transition(rows, UNDO_MACHINE, state, only_from=UndoState.STUCK, **changes):
        raise Conflict(_("Somebody else has seen to this already."))
    return rows.get()


def _due() -> QuerySet[Undo]:
    """What can be undone now: no newer effect of the same run is still to be undone before it."""
    newer = Undo.objects.filter(
        tenant_id=OuterRef("tenant_id"),
        run_ref=OuterRef("run_ref"),
        state=UndoState.DUE,
        call_id__gt=OuterRef("call_id"),
    ).exclude(call__state__in=OPEN)
    return (
        Undo.objects.filter(state=UndoState.DUE, next_attempt_at__lte=now())
        .exclude(call__state__in=OPEN)
        .filter(~Exists(newer))
    )


def _undo(undo_id: UUID) -> bool:
    """One try; whether the undoing has ended, be it by giving up."""
    crash.point("undo_begun")
    try:
        with transaction.atomic():
            ended = _undo_locked(undo_id)
            crash.point("undo_open")
    except Exception as error:
        logger.exception("undoing %s failed", undo_id)
        with transaction.atomic():
            ended = _failed(undo_id, _as_data(error))
    crash.point("undo_committed")
    return ended


def _locked(undo_id: UUID) -> Undo | None:
    rows = Undo.objects.select_for_update(skip_locked=True, of=("self",)).select_related("call")
    return rows.filter(pk=undo_id, state=UndoState.DUE, next_attempt_at__lte=now()).first()


def _undo_locked(undo_id: UUID) -> bool:
    undo = _locked(undo_id)
    if undo is None:
        return False  # another worker has it in hand
    call = undo.call
    if call.state != CallState.SUCCEEDED:
        return _end(undo, UndoState.NOTHING)
    spec = registry.find(call.tool)
    if spec is None or spec.inverse is None or spec.stands is None or call.result is None:
        raise CannotUndo(f"{call.tool} has no inverse any more.")
    caller = _caller(call)
    stands = spec.stands(context_of(call, caller), call.result)
    if stands is None:
        return _not_yet(undo_id)
    if not stands:
        return _end(undo, UndoState.NOTHING)
    tool, arguments = spec.inverse(call.result)
    opposite = registry.find(tool)
    if opposite is not None and opposite.remote is not None:
        raise CannotUndo(f"{tool} needs another party, which a person has to see to.")
    inverse = _call(undo, caller, tool, arguments)
    if inverse.state != CallState.SUCCEEDED:
        return _failed(undo_id, inverse.error or {}, inverse=inverse)
    transition(
        ToolCall.objects.filter(pk=call.pk),
        CALL_MACHINE,
        CallState.COMPENSATED,
        only_from=CallState.SUCCEEDED,
    )
    return _end(undo, UndoState.UNDONE, inverse=inverse)


def _call(undo: Undo, caller: Caller, tool: str, arguments: JsonObject) -> ToolCall:
    """The undoing call, dispatched like any other; the lock on ``undo`` keeps it the only one."""
    call = undo.call
    origin = f"undo:{call.pk}"
    tries = ToolCall.objects.filter(run_ref=undo.run_ref, origin=origin).count()
    (inverse,) = calls_propose(
        caller=caller,
        proposals=[Proposal(call_id=f"undo_{call.call_id}", tool=tool, arguments=arguments)],
        origin=origin,
        run_id=undo.run_ref,
        conversation_id=call.conversation_ref or undo.run_ref,
        key_prefix=f"{call.idempotency_key}:undo.{tries + 1}",
    )
    # Within the transaction nobody asks Valkey; and what takes back is not counted against the fan.
    report = dispatch.call_run(
        call_id=inverse.pk, caller=caller, fence=lambda: None, admission=FREE
    )
    if report.outcome is not dispatch.Outcome.DONE:
        report = dispatch.call_refuse(
            call_id=inverse.pk,
            code="needs_human",
            message="Undoing this needs a person's word by the rules of this box office.",
            hint="",
            fence=lambda: None,
        )
    return report.call


def _end(undo: Undo, state: UndoState, inverse: ToolCall | None = None) -> bool:
    changes: dict[str, Any] = {} if inverse is None else {"inverse": inverse}
    transition(
        Undo.objects.filter(pk=undo.pk),
        UNDO_MACHINE,
        state,
        only_from=UndoState.DUE,
        attempts=undo.attempts + 1,
        error=None,
        finished_at=now(),
        **changes,
    )
    record(
        action=f"tools.undo.{state.value}",
        actor=ACTOR,
        target=_target(undo),
        details={
            "tool": undo.call.tool,
            "run": str(undo.run_ref),
            "reason": undo.reason,
            "inverse": None if inverse is None else str(inverse.pk),
        },
    )
    _tell(undo)
    return True


def _not_yet(undo_id: UUID) -> bool:
    """Come again later: no try has been made, so none is counted and nothing is given up."""
    later = now() + timedelta(seconds=NOT_YET_SECONDS)
    Undo.objects.filter(pk=undo_id).update(next_attempt_at=later)
    return False


def _failed(undo_id: UUID, error: JsonObject, inverse: ToolCall | None = None) -> bool:
    """Count a try that did not work; after the last one a person has to look."""
    undo = _locked(undo_id)
    if undo is None:
        return False
    attempts = undo.attempts + 1
    changes: dict[str, Any] = {"attempts": attempts, "error": error}
    if inverse is not None:
        changes["inverse"] = inverse
    rows = Undo.objects.filter(pk=undo_id)
    if attempts < MAX_TRIES:
        wait = min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2**undo.attempts)
        rows.update(next_attempt_at=now() + timedelta(seconds=wait), **changes)
        return False
    transition(rows, UNDO_MACHINE, UndoState.STUCK, **changes)
    logger.error("undoing call %s was given up: %s", undo.call_id, error.get("code"))
    record(action="tools.undo.stuck", actor=ACTOR, target=_target(undo), details={"error": error})
    _tell(undo)
    return True


def _as_data(error: Exception) -> JsonObject:
    if isinstance(error, BoxOfficeError):
        data: JsonObject = error.as_data()["error"]
        return data
    return failed()


def _caller(call: ToolCall) -> Caller:
    """The fan, marked if the run that is taken back had read text from outside."""
    of_run = ToolCall.objects.filter(run_ref=call.run_ref)
    marked = of_run.filter(Q(seen__is_tainted=True) | Q(outside__isnull=False))
    return replace(caller_of(call), is_tainted=marked.exists())


def _target(undo: Undo) -> str:
    return f"call:{undo.call_id}"


def _wake(run_id: UUID) -> None:
    send = partial(signals.undo_planned.send_robust, sender=Undo)
    transaction.on_commit(partial(send, tenant_id=current_tenant_id(), run_id=run_id))


def _tell(undo: Undo) -> None:
    send = partial(signals.undo_moved.send_robust, sender=Undo, tenant_id=undo.tenant_id)
    about = {"run_id": undo.run_ref, "conversation_id": undo.conversation_ref}
    transaction.on_commit(partial(send, call_id=undo.call_id, **about))

"""Stopping a run: at once when no worker holds it, else by its worker, which is told at once.

A stop that was committed before the answer wins, and one that comes later finds the run over.
"""

import logging
from functools import partial
from uuid import UUID

from django.db import DatabaseError, transaction

from agents import control, signals
from agents.heirs import pass_on
from agents.models import RUN_MACHINE, Conversation, Run, RunState, Step, StepKind
from boxoffice.audit.services import record
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.tenancy.scope import operator_scope, tenant_scope
from tools import compensation, dispatch
from tools.models import UndoReason

logger = logging.getLogger(__name__)

UNHELD = (RunState.QUEUED, RunState.WAITING)
SWEPT_AT_ONCE = 200


def run_stop(*, run_id: UUID, conversation_id: UUID, actor: str, undo: bool) -> RunState:
    """Ask for the end of a run, and end it if no worker holds it. Returns its state then.

    With ``undo`` what it did is taken back, also when it was stopped before without.
    """
    with transaction.atomic():
        run = _locked(run_id, conversation_id)
        if run is None:
            raise Run.DoesNotExist
        if run.state == RunState.CANCELLED and undo:
            compensation.undo_plan(run_id=run.pk, reason=UndoReason.CANCELLED, actor=actor)
        if run.state in RUN_MACHINE.terminal:
            return RunState(run.state)
        run.cancel_requested_at = run.cancel_requested_at or now()
        if undo:
            run.undo_requested_at = run.undo_requested_at or now()
        run.save(update_fields=["cancel_requested_at", "undo_requested_at"])
        record(
            action="agents.run.cancelled",
            actor=actor,
            target=str(run.pk),
            details={"from": run.state, "undo": undo},
        )
        if run.state in UNHELD:
            _end(run)
            return RunState.CANCELLED
        transaction.on_commit(partial(control.tell_worker, owner=run.lease_owner, run_id=run.pk))
    return RunState.RUNNING


def stopped_end() -> int:
    """End the stopped runs that no worker holds (anymore), in all tenants; returns how many."""
    with operator_scope("stopped runs without a worker"):
        found = list(
            Run.objects.filter(state__in=UNHELD, cancel_requested_at__isnull=False)
            .order_by("id")
            .values_list("tenant_id", "conversation_id", "pk")[:SWEPT_AT_ONCE]
        )
    for tenant_id, conversation_id, run_id in found:
        try:
            with tenant_scope(tenant_id), transaction.atomic():
                run = _locked(run_id, conversation_id, skip_locked=True)
                if run is not None and run.state in UNHELD:
                    _end(run)
        except DatabaseError:
            logger.exception("stopped run %s was not ended", run_id)
    return len(found)


def _locked(run_id: UUID, conversation_id: UUID, *, skip_locked: bool = False) -> Run | None:
    """The run, with its conversation locked before it, as whoever posts a message does.

    ``skip_locked``: ``None`` when somebody else has either of them.
    """
    here = Conversation.objects.select_for_update(skip_locked=skip_locked)
    if here.filter(pk=conversation_id).first() is None:
        return None
    runs = Run.objects.select_for_update(skip_locked=skip_locked)
    return runs.filter(pk=run_id).first()


def _end(run: Run) -> None:
    """The last step of a run that no worker holds, and word of it to the page."""
    seq = run.last_seq + 1
    transition(
        Run.objects.filter(pk=run.pk),
        RUN_MACHINE,
        RunState.CANCELLED,
        only_from=run.state,
        last_seq=seq,
        finished_at=now(),
    )
    dispatch.calls_abandon(run_id=run.pk, code="run_ended")
    if run.undo_requested_at is not None:
        owner = run.conversation.owner_key
        compensation.undo_plan(run_id=run.pk, reason=UndoReason.CANCELLED, actor=owner)
    Step.objects.create(
        run=run,
        seq=seq,
        epoch=run.lease_epoch,
        kind=StepKind.FINAL,
        content={"state": RunState.CANCELLED, "answer": ""},
    )
    pass_on(run)
    send = partial(signals.run_ended.send, sender=Run, run_id=run.pk, tenant_id=run.tenant_id)
    transaction.on_commit(partial(send, state=RunState.CANCELLED, epoch=run.lease_epoch))

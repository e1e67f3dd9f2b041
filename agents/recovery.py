"""The sweep: Postgres decides what is to be done, messages are only wake-ups.

Whatever a crash, a lost message or a lost signal left behind is found here within seconds.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import Error, transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from agents import signals, stopping
from agents.models import RUN_MACHINE, Run, RunState
from agents.telling import tell, tell_due
from boxoffice.common.batch import Batch
from boxoffice.common.transitions import transition
from boxoffice.tenancy.scope import operator_scope
from tools.models import CallState, ToolCall

logger = logging.getLogger(__name__)

HAND_OUT_AGAIN = timedelta(seconds=5)
AT_ONCE = 500

type HandOut = Callable[[UUID, UUID], None]


def sweep(hand_out: HandOut) -> int:
    """Requeue runs whose lease ran out and runs whose wait is over; hand out what may begin.

    A stopped run that nobody holds is ended instead. Fans hear what became of a call whose run is
    over. ``hand_out(tenant_id, run_id)`` wakes a worker. Returns how many were handed out.
    """
    with operator_scope("sweep over all tenants"):
        expired = _queue_again(
            Run.objects.filter(state=RunState.RUNNING, lease_until__lt=Now()),
            lease_owner="",
            lease_until=None,
        )
        if expired:
            logger.warning("%d runs whose worker is gone were queued again", expired)
        _wake_decided()
        due = _take_due()
        for tenant_id, run_id in due:
            hand_out(tenant_id, run_id)
        _tell_to_wait()
        for tenant_id, call_id in tell_due():
            try:
                tell(tenant_id=tenant_id, call_id=call_id)
            except Error:  # the others are told all the same
                logger.exception("the fan of call %s was not told", call_id)
    stopping.stopped_end()
    return len(due)


def _wake_decided() -> None:
    _queue_again(Run.objects.filter(~_has_pending_call(), state=RunState.WAITING))


def _queue_again(rows: QuerySet[Run], **changes: Any) -> int:
    """Queue those of the rows that nobody has locked; how many.

    A worker that was halted inside a transaction holds its own run back for some seconds, not the
    sweep and with it everybody's.
    """
    with transaction.atomic():
        free = rows.select_for_update(skip_locked=True, of=("self",)).values("pk")
        return transition(
            Run.objects.filter(pk__in=free),
            RUN_MACHINE,
            RunState.QUEUED,
            handed_out_at=None,
            **changes,
        )


def _has_pending_call() -> Exists:
    return Exists(
        ToolCall.objects.filter(
            tenant_id=OuterRef("tenant_id"),
            run_ref=OuterRef("pk"),
            state=CallState.GATED,
            approval__state="pending",
        )
    )


_TAKE_DUE = """
UPDATE agents_run SET handed_out_at = now() WHERE id IN (
  SELECT line.id FROM (
    SELECT q.id, q.tenant_id, q.handed_out_at,
      row_number() OVER (PARTITION BY q.tenant_id ORDER BY q.id) AS place
    FROM agents_run q
    WHERE q.state = 'queued' AND NOT EXISTS (
      SELECT 1 FROM agents_run b
      WHERE b.conversation_id = q.conversation_id AND b.state = 'running'
    )
  ) line
  JOIN tenancy_tenant t ON t.id = line.tenant_id
  WHERE line.place <= t.max_concurrent_runs - (
    SELECT count(*) FROM agents_run w WHERE w.tenant_id = line.tenant_id AND w.state = 'running'
  )
  AND (
    line.handed_out_at IS NULL OR line.handed_out_at < now() - make_interval(secs => %s)
  )
  ORDER BY line.place, line.id LIMIT %s
) RETURNING tenant_id, id
"""


def _take_due() -> list[tuple[UUID, UUID]]:
    """The runs for which to wake a worker: of no tenant more than its cap leaves room for."""
    batch = Batch()
    batch.add(_TAKE_DUE, [HAND_OUT_AGAIN.total_seconds(), AT_ONCE])
    (taken,) = batch.commit()
    return [(tenant_id, run_id) for tenant_id, run_id in taken.rows]


_TELL_TO_WAIT = """
UPDATE agents_run SET told_to_wait_at = now() WHERE id IN (
  SELECT id FROM agents_run
  WHERE state = 'queued' AND lease_epoch = 0 AND told_to_wait_at IS NULL
    AND created_at < now() - make_interval(secs => %s)
  ORDER BY id LIMIT %s
) RETURNING tenant_id, id
"""


def _tell_to_wait() -> None:
    """Fans whose answer has not begun after some seconds are told that it is in line."""
    batch = Batch()
    batch.add(_TELL_TO_WAIT, [settings.IN_LINE_SECONDS, AT_ONCE])
    (told,) = batch.commit()
    for tenant_id, run_id in told.rows:
        signals.run_in_line.send(sender=Run, tenant_id=tenant_id, run_id=run_id)


def run_resume(*, run_id: UUID) -> bool:
    """Queue a waiting run if no human is left to decide; whether it was. In the tenant's scope."""
    return bool(
        transition(
            Run.objects.filter(~_has_pending_call(), pk=run_id),
            RUN_MACHINE,
            RunState.QUEUED,
            only_from=RunState.WAITING,
            handed_out_at=Now(),
        )
    )

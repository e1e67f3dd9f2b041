"""The sweep: Postgres decides what is to be done, messages are only wake-ups.

Whatever a crash, a lost message or a lost signal left behind is found here within seconds.
"""

import logging
from collections.abc import Callable
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from agents.models import RUN_MACHINE, Run, RunState
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.tenancy.scope import operator_scope
from tools.models import CallState, ToolCall

logger = logging.getLogger(__name__)

HAND_OUT_AGAIN = timedelta(seconds=5)
AT_ONCE = 500

type HandOut = Callable[[UUID, UUID], None]


def sweep(hand_out: HandOut) -> int:
    """Requeue runs whose lease ran out and runs whose wait is over; hand out what is queued.

    ``hand_out(tenant_id, run_id)`` wakes a worker. Returns how many were handed out.
    """
    with operator_scope("sweep over all tenants"):
        expired = transition(
            Run.objects.filter(lease_until__lt=Now()),
            RUN_MACHINE,
            RunState.QUEUED,
            only_from=RunState.RUNNING,
            lease_owner="",
            lease_until=None,
            handed_out_at=None,
        )
        if expired:
            logger.warning("%d runs whose worker is gone were queued again", expired)
        _wake_decided()
        due = _take_due()
    for tenant_id, run_id in due:
        hand_out(tenant_id, run_id)
    return len(due)


def _wake_decided() -> None:
    transition(
        Run.objects.filter(~_has_pending_call()),
        RUN_MACHINE,
        RunState.QUEUED,
        only_from=RunState.WAITING,
        handed_out_at=None,
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


def _take_due() -> list[tuple[UUID, UUID]]:
    busy = Run.objects.filter(conversation=OuterRef("conversation"), state=RunState.RUNNING)
    with transaction.atomic():
        rows = list(
            Run.objects.filter(state=RunState.QUEUED)
            .filter(Q(handed_out_at=None) | Q(handed_out_at__lt=now() - HAND_OUT_AGAIN))
            .filter(~Exists(busy))
            .order_by("id")
            .select_for_update(skip_locked=True, of=("self",))
            .values_list("tenant_id", "pk")[:AT_ONCE]
        )
        Run.objects.filter(pk__in=[run_id for _, run_id in rows]).update(handed_out_at=now())
    return rows


def run_resume(*, run_id: UUID) -> bool:
    """Queue a waiting run if no human is left to decide; whether it was. In the tenant's scope."""
    return bool(
        transition(
            Run.objects.filter(~_has_pending_call(), pk=run_id),
            RUN_MACHINE,
            RunState.QUEUED,
            only_from=RunState.WAITING,
            handed_out_at=now(),
        )
    )

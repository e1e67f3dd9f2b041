"""Celery's doors of the tools room: ids in, nothing out; safe to deliver twice, late, or never."""

import asyncio
import logging
from uuid import UUID

from celery import shared_task
from django.db import connection

from boxoffice.tenancy.scope import operator_scope, tenant_scope
from tools import compensation, remote
from tools.outcomes import Sending
from tools.remote import Finding

logger = logging.getLogger(__name__)

AT_ONCE = 50


@shared_task(name="tools.resolve_effects")  # type: ignore[untyped-decorator]
def resolve_effects() -> None:
    """Look up the remote effects whose worker is gone and whose run does not go on."""
    with operator_scope("remote effects that nobody has finished"):
        due = remote.due(AT_ONCE)
    taken = [sending for ids in due if (sending := _take(*ids)) is not None]
    if not taken:
        return
    connection.close()  # the other parties may take their time
    for sending, finding in zip(taken, asyncio.run(remote.ask_all(taken)), strict=True):
        _conclude(sending, finding)


def _take(tenant_id: UUID, call_id: UUID) -> Sending | None:
    try:
        with tenant_scope(tenant_id):
            return remote.take(call_id=call_id)
    except Exception:
        logger.exception("call %s cannot be taken on", call_id)
        return None


def _conclude(sending: Sending, finding: Finding) -> None:
    """One that cannot be written down keeps none of the others."""
    try:
        with tenant_scope(sending.tenant_id):
            remote.conclude(call_id=sending.call_id, finding=finding)
    except Exception:
        logger.exception("call %s: what was found is looked up again", sending.call_id)


@shared_task(name="tools.undo_run")  # type: ignore[untyped-decorator]
def undo_run(tenant_id: str, run_id: str) -> None:
    """Undo what is due of one run."""
    with tenant_scope(UUID(tenant_id)):
        compensation.undo_run(run_id=UUID(run_id))


@shared_task(name="tools.undo_due")  # type: ignore[untyped-decorator]
def undo_due() -> None:
    """Undo what is due anywhere."""
    compensation.undo_due()

"""Celery's doors of the tools room: ids in, nothing out; safe to deliver twice, late, or never."""

import asyncio
import logging
from uuid import UUID

from celery import shared_task
from django.db import DatabaseError

from boxoffice.tenancy.scope import operator_scope, tenant_scope
from tools import compensation, remote

logger = logging.getLogger(__name__)

AT_ONCE = 50


@shared_task(name="tools.resolve_effects")  # type: ignore[untyped-decorator]
def resolve_effects() -> None:
    """Look up the remote effects whose worker is gone and whose run does not go on."""
    with operator_scope("remote effects that nobody has finished"):
        due = remote.due(AT_ONCE)
    taken = []
    for tenant_id, call_id in due:
        with tenant_scope(tenant_id):
            sending = remote.take(call_id=call_id)
        if sending is not None:
            taken.append(sending)
    findings = asyncio.run(remote.ask_all(taken)) if taken else []
    for sending, finding in zip(taken, findings, strict=True):
        try:
            with tenant_scope(sending.tenant_id):
                remote.conclude(call_id=sending.call_id, finding=finding)
        except DatabaseError:
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

"""What follows a commit: wake a worker for a message or a decision."""

import logging
from typing import Any
from uuid import UUID

from django.dispatch import receiver

from agents import handout, recovery, signals
from agents.telling import tell
from approvals.signals import decided
from boxoffice.tenancy.scope import tenant_scope
from tools.signals import concluded

logger = logging.getLogger(__name__)


@receiver(signals.message_posted)
def hand_out_run(tenant_id: UUID, run_id: UUID | None, **kwargs: Any) -> None:
    """A message was stored: its run is to be worked on."""
    if run_id is not None:
        handout.hand_out(tenant_id, run_id)


@receiver(decided)
def resume_run(tenant_id: UUID, reference: dict[str, str], **kwargs: Any) -> None:
    """A human has decided: the run goes on when nobody is left to wait for."""
    run_id = reference.get("run")
    if not run_id:
        return
    with tenant_scope(tenant_id):
        is_due = recovery.run_resume(run_id=UUID(run_id))
    if is_due:
        handout.hand_out(tenant_id, UUID(run_id))


@receiver(concluded)
def tell_fan(tenant_id: UUID, call_id: UUID, **kwargs: Any) -> None:
    """What became of a call is known: the fan is told, unless its run is still there to do it."""
    tell(tenant_id=tenant_id, call_id=call_id)

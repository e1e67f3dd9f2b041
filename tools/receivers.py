"""What the tools are to the rooms below, and what follows their own commits."""

import logging
from typing import Any
from uuid import UUID

from django.dispatch import receiver
from kombu.exceptions import OperationalError

from approvals import ports
from tools import signals, tasks
from tools.actions import ToolActions
from tools.history import Ledger

logger = logging.getLogger(__name__)

ports.register(ToolActions())
ports.register_calls(Ledger())


@receiver(signals.undo_planned)
def wake_undo(tenant_id: UUID, run_id: UUID, **kwargs: Any) -> None:
    """Have the effects of a run undone now; without a broker the clock does it."""
    try:
        tasks.undo_run.delay(tenant_id=str(tenant_id), run_id=str(run_id))
    except OperationalError as error:
        logger.warning("run %s: undoing waits for the clock: %s", run_id, type(error).__name__)

"""Waking a worker, by the task's name: a web process never loads what a worker needs."""

import logging
from uuid import UUID

from celery import current_app
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)


def hand_out(tenant_id: UUID, run_id: UUID) -> None:
    """Wake a worker for a run. A broker that is away is no error: the sweep tries again."""
    try:
        current_app.send_task("agents.advance", args=[str(tenant_id), str(run_id)])
    except OperationalError as error:
        logger.warning("run %s was not handed out: %s", run_id, type(error).__name__)

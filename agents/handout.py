"""Waking a worker, by the task's name: a web process never loads what a worker needs."""

import logging
from uuid import UUID

from celery import current_app
from kombu.exceptions import OperationalError

logger = logging.getLogger(__name__)

# The broker may be back, and the connection in the pool be one from before.
ONCE_MORE = {"max_retries": 1, "interval_start": 0, "interval_step": 0, "interval_max": 0}


def hand_out(tenant_id: UUID, run_id: UUID) -> None:
    """Wake a worker because of a run; it works on the run whose turn it is (``agents.turns``).

    A broker that is away is no error: the sweep tries again.
    """
    _wake("agents.advance", tenant_id, run_id)


def hand_out_replay(tenant_id: UUID, replay_id: UUID) -> None:
    """Wake a worker for a replay that asks the model."""
    _wake("agents.replay", tenant_id, replay_id)


def _wake(task: str, tenant_id: UUID, row_id: UUID) -> None:
    try:
        current_app.send_task(
            task, args=[str(tenant_id), str(row_id)], retry=True, retry_policy=ONCE_MORE
        )
    except OperationalError as error:
        logger.warning("%s of %s was not handed out: %s", task, row_id, type(error).__name__)

"""Wake-ups: ids in, nothing out; safe to deliver twice, late, or never."""

import logging
from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import worker_shutting_down
from kombu.exceptions import OperationalError

from agents import recovery
from agents.loop import worker

logger = logging.getLogger(__name__)


@shared_task(name="agents.advance")
def advance(tenant_id: str, run_id: str) -> None:
    """Work on a run until it ends, waits, or is taken over."""
    worker.runtime().submit(tenant_id=UUID(tenant_id), run_id=UUID(run_id)).result()


@shared_task(name="agents.sweep")
def sweep() -> None:
    """Find what a crash or a lost message left behind, and hand out what is queued."""
    recovery.sweep(hand_out)


def hand_out(tenant_id: UUID, run_id: UUID) -> None:
    """Wake a worker for a run. A broker that is away is no error: the sweep tries again."""
    try:
        advance.delay(str(tenant_id), str(run_id))
    except OperationalError as error:
        logger.warning("run %s was not handed out: %s", run_id, type(error).__name__)


@worker_shutting_down.connect
def _give_leases_back(**kwargs: Any) -> None:
    worker.shut_down()

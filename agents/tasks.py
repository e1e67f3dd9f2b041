"""Wake-ups: ids in, nothing out; safe to deliver twice, late, or never."""

from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import worker_shutting_down

from agents import recovery
from agents.handout import hand_out
from agents.loop import worker


@shared_task(name="agents.advance")  # type: ignore[untyped-decorator]
def advance(tenant_id: str, run_id: str) -> None:
    """Work on a run until it ends, waits, or is taken over."""
    worker.runtime().submit(tenant_id=UUID(tenant_id), run_id=UUID(run_id)).result()


@shared_task(name="agents.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Find what a crash or a lost message left behind, and hand out what is queued."""
    recovery.sweep(hand_out)


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _give_leases_back(**kwargs: Any) -> None:
    worker.shut_down()

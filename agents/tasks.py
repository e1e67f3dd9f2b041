"""Wake-ups: ids in, nothing out; safe to deliver twice, late, or never."""

from typing import Any

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_shutting_down

from agents import recovery
from agents.handout import hand_out
from agents.loop import worker


@shared_task(name="agents.advance")  # type: ignore[untyped-decorator]
def advance(tenant_id: str, run_id: str) -> None:
    """There is something to do: work on whatever run's turn it is, while there is one.

    The ids say what the wake-up is about, for logs and for workers of the release before.
    """
    worker.runtime().submit().result()


@shared_task(name="agents.sweep")  # type: ignore[untyped-decorator]
def sweep() -> None:
    """Find what a crash or a lost message left behind, and hand out what is queued."""
    recovery.sweep(hand_out)


@celeryd_after_setup.connect  # type: ignore[untyped-decorator]
def _count_slots(instance: Any, **kwargs: Any) -> None:
    worker.set_slots(int(instance.concurrency))


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _give_leases_back(**kwargs: Any) -> None:
    worker.shut_down()

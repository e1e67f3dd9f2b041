"""Wake-ups: ids in, nothing out; safe to deliver twice, late, or never."""

from typing import Any
from uuid import UUID

from celery import shared_task
from celery.signals import celeryd_after_setup, worker_shutting_down

from agents import recovery
from agents.handout import hand_out, hand_out_replay
from agents.loop import worker
from agents.replay import service


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


@shared_task(name="agents.replay")  # type: ignore[untyped-decorator]
def replay(tenant_id: str, replay_id: str) -> None:
    """Ask a model again what it was asked in a run; nothing when another worker does."""
    service.replay_work(
        tenant_id=UUID(tenant_id), replay_id=UUID(replay_id), ask=worker.runtime().ask
    )


@shared_task(name="agents.replays_sweep")  # type: ignore[untyped-decorator]
def replays_sweep() -> None:
    """Find the replays that a crash or a lost message left behind."""
    service.sweep(hand_out_replay)


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _give_leases_back(**kwargs: Any) -> None:
    worker.shut_down()

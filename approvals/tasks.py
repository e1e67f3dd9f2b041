"""Work of the approvals room that nobody waits for."""

from celery import shared_task

from approvals import services


@shared_task(name="approvals.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """End what has waited too long."""
    services.expire_due()

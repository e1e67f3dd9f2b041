"""Work of the approvals room that nobody waits for."""

from uuid import UUID

from celery import shared_task

from approvals import notices, services
from boxoffice.tenancy.scope import tenant_scope


@shared_task(name="approvals.expire")  # type: ignore[untyped-decorator]
def expire() -> None:
    """End what has waited too long, and send the notices whose task was lost."""
    services.expire_due()
    for tenant_id, request_id in notices.overdue_notices():
        notify.delay(tenant_id=str(tenant_id), request_id=str(request_id))


@shared_task(  # type: ignore[untyped-decorator]
    name="approvals.notify",
    autoretry_for=(OSError,),
    retry_backoff=2,
    retry_backoff_max=60,
    max_retries=5,
)
def notify(*, tenant_id: str, request_id: str) -> None:
    """E-mail the reviewers; a mail server that does not answer is tried again."""
    with tenant_scope(UUID(tenant_id)):
        notices.reviewers_notify(request_id=UUID(request_id))

"""What follows a commit: the open inboxes look again, the reviewers get their mail."""

from typing import Any
from uuid import UUID

from django.dispatch import receiver

from approvals import signals, tasks
from approvals.consumers import inbox_group
from approvals.models import Gate
from boxoffice.tenancy.sockets import group_tell


@receiver([signals.requested, signals.counted, signals.decided, signals.settled])
def tell_inboxes(request_id: UUID, tenant_id: UUID, state: str, gate: str, **kwargs: Any) -> None:
    """Let the tenant's open inboxes look again; a fan's own confirmation is not shown there."""
    if gate != Gate.REVIEWER:
        return
    message = {"type": "approval.changed", "approval": str(request_id), "state": state}
    group_tell(inbox_group(tenant_id), message)


@receiver(signals.requested)
def tell_reviewers(request_id: UUID, tenant_id: UUID, gate: str, **kwargs: Any) -> None:
    """Have the reviewers' mail sent."""
    if gate != Gate.REVIEWER:
        return
    tasks.notify.delay(tenant_id=str(tenant_id), request_id=str(request_id))

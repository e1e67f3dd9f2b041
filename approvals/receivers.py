"""What follows a commit: the open inboxes look again, the reviewers get their mail."""

import asyncio
import logging
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.dispatch import receiver
from redis import RedisError

from approvals import signals, tasks
from approvals.consumers import inbox_group
from approvals.models import Gate

logger = logging.getLogger(__name__)

SEND_SECONDS = 2.0


@receiver([signals.requested, signals.counted, signals.decided, signals.settled])
def tell_inboxes(request_id: UUID, tenant_id: UUID, state: str, gate: str, **kwargs: Any) -> None:
    """Let the tenant's open inboxes look again; a fan's own confirmation is not shown there."""
    if gate != Gate.REVIEWER:
        return
    message = {"type": "approval.changed", "approval": str(request_id), "state": state}
    try:
        async_to_sync(_send)(inbox_group(tenant_id), message)
    except (RedisError, OSError) as error:
        # The inboxes look again by themselves when they reconnect.
        logger.warning("inboxes were not told: %s", type(error).__name__)


async def _send(group: str, message: dict[str, str]) -> None:
    async with asyncio.timeout(SEND_SECONDS):
        await get_channel_layer().group_send(group, message)


@receiver(signals.requested)
def tell_reviewers(request_id: UUID, tenant_id: UUID, gate: str, **kwargs: Any) -> None:
    """Have the reviewers' mail sent."""
    if gate != Gate.REVIEWER:
        return
    tasks.notify.delay(tenant_id=str(tenant_id), request_id=str(request_id))

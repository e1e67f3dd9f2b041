"""Sent after a commit. A signal can be lost in a crash: the sweep finds what it missed.

``message_posted(tenant_id, conversation_id, message_id, run_id)`` ·
``run_ended(tenant_id, run_id, state, epoch)`` for a run that no worker held when it ended ·
``run_in_line(tenant_id, run_id)`` for a run that has waited for a worker for some seconds.
"""

from functools import partial
from uuid import UUID

from django.db import transaction
from django.dispatch import Signal

message_posted = Signal()
run_ended = Signal()
run_in_line = Signal()


def message_announce(
    *, tenant_id: UUID, conversation_id: UUID, message_id: UUID, run_id: UUID | None
) -> None:
    """Send ``message_posted`` once the caller's transaction is committed."""
    transaction.on_commit(
        partial(
            message_posted.send,
            sender=None,
            tenant_id=tenant_id,
            conversation_id=conversation_id,
            message_id=message_id,
            run_id=run_id,
        )
    )

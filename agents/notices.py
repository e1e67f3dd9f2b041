"""Word to the open pages, after a commit. Losing one loses nothing: the pages look again."""

from typing import Any
from uuid import UUID

from django.dispatch import receiver

from agents import signals, stream
from agents.loop.events import run_finished, run_in_line
from agents.models import Run, RunState
from approvals.models import ApprovalRequest
from approvals.signals import decided
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.tenancy.sockets import group_tell
from tools.signals import undo_moved

# A run can be claimed anew between reading its epoch and publishing under it.
TRIES = 3


def conversation_group(conversation_id: UUID | str) -> str:
    """The channel-layer group of all open pages of a conversation."""
    return f"conversation.{conversation_id}"


@receiver(signals.message_posted)
def tell_pages(conversation_id: UUID, message_id: UUID, run_id: UUID | None, **kwargs: Any) -> None:
    """A message was stored: the other tabs show it, and follow its run."""
    notice = {
        "type": "message.posted",
        "message": str(message_id),
        "run": None if run_id is None else str(run_id),
    }
    group_tell(conversation_group(conversation_id), notice)


@receiver(decided)
def tell_decision(
    tenant_id: UUID, request_id: UUID, state: str, reference: dict[str, str], **kwargs: Any
) -> None:
    """A human (or the clock) has decided: the run's page says so."""
    if not reference.get("run"):
        return
    with tenant_scope(tenant_id):
        request = ApprovalRequest.objects.get(pk=request_id)
        last = request.decisions.order_by("id").last()
        event = {
            "type": "approval.decided",
            "approval": str(request_id),
            "call": reference.get("call", ""),
            "gate": request.gate,
            "state": str(state),
            "note": last.note if last is not None else "",
        }
        _publish(UUID(reference["run"]), event)


@receiver(undo_moved)
def tell_undone(conversation_id: UUID | None, call_id: UUID, **kwargs: Any) -> None:
    """What a run did has been taken back, or could not be: the open pages look at the call."""
    if conversation_id is None:
        return
    notice = {"type": "tool.undone", "call": str(call_id)}
    group_tell(conversation_group(conversation_id), notice)


@receiver(signals.run_ended)
def tell_end(tenant_id: UUID, run_id: UUID, state: str, **kwargs: Any) -> None:
    """A run ended that no worker held: the page is told in the worker's place."""
    with tenant_scope(tenant_id):
        _publish(run_id, run_finished(RunState(state), ""))


@receiver(signals.run_in_line)
def tell_to_wait(tenant_id: UUID, run_id: UUID, **kwargs: Any) -> None:
    """Others are answered first: the page says so."""
    with tenant_scope(tenant_id):
        _publish(run_id, run_in_line())


def _publish(run_id: UUID, event: JsonObject) -> None:
    for _ in range(TRIES):
        run = Run.objects.filter(pk=run_id).values("lease_epoch", "event_seq").first()
        if run is None:
            return
        number = stream.publish(
            run_id=run_id, epoch=run["lease_epoch"], floor=run["event_seq"], events=[event]
        )
        if number != -1:
            return

"""Word in the chat of what became of a call after the run that asked for it was over."""

from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef
from django.utils.translation import gettext as _
from django.utils.translation import override

from agents import signals
from agents.models import RUN_MACHINE, Conversation, Message, Run, Speaker
from approvals.wording import action_words
from boxoffice.common.clock import now
from boxoffice.tenancy.scope import tenant_scope
from tools.models import CallState, RemoteEffect, ToolCall
from tools.remote import told

AT_ONCE = 100


def tell_due() -> list[tuple[UUID, UUID]]:
    """Tenant and call of what fans have still to be told; a run at work tells by itself."""
    at_work = Run.objects.filter(pk=OuterRef("call__run_ref")).exclude(
        state__in=RUN_MACHINE.terminal
    )
    rows = RemoteEffect.objects.filter(~Exists(at_work), to_tell=True).order_by("id")
    return list(rows.values_list("tenant_id", "call_id")[:AT_ONCE])


def tell(*, tenant_id: UUID, call_id: UUID) -> bool:
    """Tell the fan of one call, once, if nobody else does; says whether."""
    with tenant_scope(tenant_id), transaction.atomic():
        call = ToolCall.objects.select_related("approval").get(pk=call_id)
        if _is_at_work(call.run_ref) or call.conversation_ref is None:
            return False
        # Passed over while somebody else is at it: the next sweep comes by again.
        rows = Conversation.objects.select_for_update(skip_locked=True)
        conversation = rows.filter(pk=call.conversation_ref).first()
        if conversation is None or not told(call_id=call.pk, state=call.state):
            return False
        if call.state == CallState.UNKNOWN:
            Conversation.objects.filter(pk=conversation.pk).update(
                handoff_at=now(), handoff_reason="outcome_unknown"
            )
        message = Message.objects.create(
            conversation=conversation,
            speaker=Speaker.HUMAN,
            text=_said(call, conversation.language),
            taken_at=now(),
        )
        signals.message_announce(
            tenant_id=tenant_id,
            conversation_id=conversation.pk,
            message_id=message.pk,
            run_id=None,
        )
    return True


def _is_at_work(run_id: UUID | None) -> bool:
    if run_id is None:
        return False
    return Run.objects.filter(pk=run_id).exclude(state__in=RUN_MACHINE.terminal).exists()


def _said(call: ToolCall, language: str) -> str:
    with override(language):
        preview = (call.approval.effective_preview if call.approval is not None else None) or {}
        what = {"what": preview.get("summary") or action_words(call.tool)}
        if call.state in (CallState.SUCCEEDED, CallState.COMPENSATED):
            return _("This has gone through: %(what)s.") % what
        if call.state == CallState.UNKNOWN:
            return (
                _(
                    "We do not know yet whether this has gone through: %(what)s. Please do not "
                    "try it again; a person of the box office is looking into it."
                )
                % what
            )
        return _("This has not gone through, and nothing was changed: %(what)s.") % what

"""What a door may do with conversations and runs."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from agents import signals, stopping
from agents.models import (
    RUN_MACHINE,
    Conversation,
    Message,
    Run,
    RunState,
    Speaker,
    Step,
    StepKind,
)
from agents.selectors import conversation_get, conversations_for, is_staff, run_get
from boxoffice.audit.services import record
from boxoffice.common import crash
from boxoffice.common.batch import Batch, loaded
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Conflict, Forbidden, InvalidInput, NotFound
from boxoffice.tenancy.models import Tier
from boxoffice.tenancy.principals import Principal

MAX_MESSAGE_CHARACTERS = 8_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A stored message and the run that answers it (``None`` for a person's reply)."""

    message: Message
    run: Run | None


def conversation_create(*, principal: Principal, language: str) -> Conversation:
    """Open a conversation for the principal."""
    return Conversation.objects.create(
        user_id=principal.user_id, visitor=principal.visitor or "", language=language
    )


def conversation_start(
    *, principal: Principal, language: str, text: str, client_id: str | None = None
) -> Conversation:
    """Open a conversation with its first message; the same ``client_id`` again opens no second.

    Raises ``InvalidInput`` as ``message_post`` does, and then leaves nothing behind.
    """
    if client_id is not None:
        mine = conversations_for(principal).filter(messages__client_id=client_id).first()
        if mine is not None:
            return mine
    with transaction.atomic():
        conversation = conversation_create(principal=principal, language=language)
        message_post(
            principal=principal,
            conversation_id=conversation.pk,
            text=text,
            client_id=client_id,
        )
    return conversation


def message_post(
    *, principal: Principal, conversation_id: UUID, text: str, client_id: str | None = None
) -> Posted:
    """Store a message, and queue the run that answers it.

    While a run of the conversation is queued or at work, the message joins it and is taken up at
    its next step; a run that is being stopped takes up nothing more. The same ``client_id`` again
    is the same message. A person of the box office who writes into a fan's conversation answers
    it; no run is started. Raises ``NotFound`` for a conversation that is not the principal's,
    ``InvalidInput`` for an empty or too long text.
    """
    text = _clean(text)
    if client_id is not None and not 1 <= len(client_id) <= 64:
        raise InvalidInput(_("client_id: between 1 and 64 characters."))
    with transaction.atomic():
        place = _lock(principal, conversation_id, client_id)
        if place.known is not None:
            return Posted(message=place.known, run=place.known.run)
        if not owns(principal, place.conversation):
            return _answer_as_human(principal, place.conversation, text, client_id)
        return _ask(principal, place, text, client_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A locked conversation: the run that a message would join, and the tier of a new one.

    ``known`` is the message that was posted under the same ``client_id`` before.
    """

    conversation: Conversation
    active: Run | None
    tier: Tier | None
    known: Message | None


_HERE = "WHERE tenant_id = %s AND conversation_id = %s"
# The one at work before one that has its turn later.
_ACTIVE = f"""
{_HERE} AND parent_id IS NULL AND cancel_requested_at IS NULL AND state IN ('queued', 'running')
ORDER BY state DESC, id LIMIT 1 FOR UPDATE
"""


def _lock(principal: Principal, conversation_id: UUID, client_id: str | None) -> _Place:
    """Lock the conversation, in one message to the database.

    Each statement sees what was committed before it began: what is read after the lock is what
    the last one who posted has left. Raises ``NotFound`` if the principal may not see it.
    """
    here = [principal.tenant_id, conversation_id]
    batch = Batch()
    batch.select(Conversation, "WHERE tenant_id = %s AND id = %s FOR UPDATE", here)
    batch.select(Run, _ACTIVE, here)
    tier = [principal.tenant_id, principal.tier_id]
    batch.select(Tier, "WHERE tenant_id = %s AND id = %s", tier)
    batch.select(Message, f"{_HERE} AND client_id = %s", [*here, client_id])
    found, runs, tiers, messages = batch.send()
    conversation = next(iter(loaded(Conversation, found)), None)
    if conversation is None or not (owns(principal, conversation) or is_staff(principal)):
        raise NotFound("Conversation not found.")
    active = next(iter(loaded(Run, runs)), None)
    tier_now = next(iter(loaded(Tier, tiers)), None)
    known = next(iter(loaded(Message, messages)), None)
    return _Place(conversation=conversation, active=active, tier=tier_now, known=known)


def owns(principal: Principal, conversation: Conversation) -> bool:
    """Whether the conversation is the principal's own."""
    if principal.user_id is not None:
        return conversation.user_id == principal.user_id
    return bool(principal.visitor) and conversation.visitor == principal.visitor


def run_cancel(*, principal: Principal, run_id: UUID, undo: bool = False) -> Run:
    """Stop a run: at once when it is not at work, else by its worker, which is told at once.

    What has been said so far is kept, and a write that is being made is made to its end. With
    ``undo``, what the run has done and can be undone is taken back; a run that was stopped
    without can be given ``undo`` later. A run that came to another end raises ``Conflict``.
    """
    run = run_get(principal=principal, run_id=run_id)
    if not owns(principal, run.conversation):
        raise Forbidden(_("Only the fan whose conversation it is can stop it."))
    stopping.run_stop(
        run_id=run.pk, conversation_id=run.conversation_id, actor=principal.key, undo=undo
    )
    run.refresh_from_db()
    if run.state in RUN_MACHINE.terminal and run.state != RunState.CANCELLED:
        raise Conflict(_("This run is over already (%(state)s).") % {"state": run.state})
    return run


def handoff_close(*, principal: Principal, conversation_id: UUID, since: datetime) -> bool:
    """Take a conversation that waits for a person off their desk; the agent goes on with it.

    ``since`` is the handoff that was dealt with: one that came later stays. Returns whether it
    was still waiting. Raises ``NotFound`` for a conversation that the principal may not see,
    ``Forbidden`` when they may not answer in it.
    """
    conversation = conversation_get(principal=principal, conversation_id=conversation_id)
    if not principal.may("answer_fans"):
        raise Forbidden(_("You may read this conversation, not answer in it."))
    with transaction.atomic():
        rows = Conversation.objects.filter(pk=conversation.pk, handoff_at=since)
        if not rows.update(handoff_at=None, handoff_reason=""):
            return False
        record(
            action="agents.handoff.closed",
            actor=principal.key,
            target=str(conversation.pk),
            details={"reason": conversation.handoff_reason, "since": since.isoformat()},
        )
    return True


def _clean(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidInput(_("text: a string."))
    cleaned = text.replace("\x00", "").encode("utf-8", "replace").decode().strip()
    if not cleaned:
        raise InvalidInput(_("text: write something first."))
    if len(cleaned) > MAX_MESSAGE_CHARACTERS:
        numbers = {"most": MAX_MESSAGE_CHARACTERS, "count": len(cleaned)}
        raise InvalidInput(_("text: at most %(most)s characters, not %(count)s.") % numbers)
    return cleaned


def _ask(principal: Principal, place: _Place, text: str, client_id: str | None) -> Posted:
    conversation, joins = place.conversation, place.active is not None
    run = place.active or run_draft(principal, conversation, place.tier)
    message = Message(
        tenant_id=conversation.tenant_id,
        conversation=conversation,
        run=run,
        speaker=Speaker.FAN,
        author_id=principal.user_id,
        text=text,
        client_id=client_id,
        taken_at=None if joins else now(),
    )
    batch = Batch()
    if not joins:
        batch.insert(run, timed=("handed_out_at",))
    batch.insert(message)
    if not conversation.title:
        where = {"tenant_id": conversation.tenant_id, "id": conversation.pk}
        batch.update(Conversation, changes={"title": text[:120]}, where=where)
    if not joins:
        said = {"messages": [{"id": str(message.pk), "text": text}]}
        batch.insert(
            Step(
                tenant_id=run.tenant_id,
                run=run,
                seq=1,
                epoch=0,
                kind=StepKind.INPUT,
                content=said,
            )
        )
    batch.send()
    crash.point("message_open", conversation.pk)
    transaction.on_commit(lambda: crash.point("message_committed", conversation.pk))
    signals.message_announce(
        tenant_id=conversation.tenant_id,
        conversation_id=conversation.pk,
        message_id=message.pk,
        run_id=run.pk,
    )
    return Posted(message=message, run=run)


def run_draft(
    principal: Principal,
    conversation: Conversation,
    tier: Tier | None,
    *,
    model: str = "",
    **about: Any,
) -> Run:
    """A queued run, not stored yet, with the limits (and model) of the principal's tier.

    Raises ``NotFound`` for a tier that is gone meanwhile.
    """
    if tier is None:
        raise NotFound("Conversation not found.")
    return Run(
        tenant_id=conversation.tenant_id,
        conversation=conversation,
        asked_by=principal.key,
        is_anonymous=principal.is_anonymous,
        model=model or tier.model_alias,
        tier=tier.slug,
        max_steps=tier.max_steps,
        max_output_tokens=tier.max_tokens_per_request,
        max_wall_seconds=tier.max_wall_seconds,
        max_cost_micros=tier.max_run_cost_micros,
        **{"last_seq": 1, **about},
    )


def _answer_as_human(
    principal: Principal, conversation: Conversation, text: str, client_id: str | None
) -> Posted:
    if not principal.may("answer_fans"):
        raise Forbidden(_("You may read this conversation, not answer in it."))
    message = Message.objects.create(
        conversation=conversation,
        speaker=Speaker.HUMAN,
        author_id=principal.user_id,
        text=text,
        client_id=client_id,
        taken_at=now(),
    )
    Conversation.objects.filter(pk=conversation.pk).update(handoff_at=None, handoff_reason="")
    record(
        action="agents.conversation.answered",
        actor=principal.key,
        target=str(conversation.pk),
        details={"message": str(message.pk)},
    )
    signals.message_announce(
        tenant_id=conversation.tenant_id,
        conversation_id=conversation.pk,
        message_id=message.pk,
        run_id=None,
    )
    return Posted(message=message, run=None)

"""Reading conversations and runs, by who may see them."""

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Prefetch, QuerySet

from agents.models import Conversation, Message, Run, RunState, Speaker, Step
from boxoffice.common.exceptions import NotFound
from boxoffice.tenancy.principals import Principal
from tools.effects import calls_of_run
from tools.models import ToolCall

STAFF_PERMISSIONS = ("answer_fans", "review_actions", "configure")
UNFINISHED = (RunState.QUEUED, RunState.RUNNING, RunState.WAITING)


def conversations_for(principal: Principal) -> QuerySet[Conversation]:
    """The conversations that are the principal's own."""
    rows = Conversation.objects.all()
    if principal.user_id is not None:
        return rows.filter(user_id=principal.user_id)
    return rows.filter(user=None, visitor=principal.visitor or "-")


def is_staff(principal: Principal) -> bool:
    """Whether the principal may read fans' conversations."""
    return any(principal.may(permission) for permission in STAFF_PERMISSIONS)


def conversation_get(*, principal: Principal, conversation_id: UUID) -> Conversation:
    """The principal's own conversation, or any for the tenant's staff; else ``NotFound``."""
    rows = Conversation.objects.all() if is_staff(principal) else conversations_for(principal)
    found = rows.filter(pk=conversation_id).first()
    if found is None:
        raise NotFound("Conversation not found.")
    return found


def language_of(*, conversation_id: UUID) -> str:
    """The language that a conversation is held in."""
    return Conversation.objects.values_list("language", flat=True).get(pk=conversation_id)


def messages_of(conversation: Conversation) -> QuerySet[Message]:
    """Everything said in the conversation, oldest first."""
    return Message.objects.filter(conversation=conversation).order_by("id")


def handoffs() -> QuerySet[Conversation]:
    """Conversations that wait for a person, longest first."""
    return Conversation.objects.filter(handoff_at__isnull=False).order_by("handoff_at", "id")


def last_words(conversation_ids: Iterable[UUID]) -> dict[UUID, Message]:
    """What the fan said last in each of the conversations, in one query."""
    said = Message.objects.filter(conversation__in=list(conversation_ids), speaker=Speaker.FAN)
    newest = said.order_by("conversation_id", "-id").distinct("conversation_id")
    return {message.conversation_id: message for message in newest}


def run_get(*, principal: Principal, run_id: UUID) -> Run:
    """A run of a conversation that the principal may see; else ``NotFound``."""
    rows = Run.objects.select_related("conversation")
    if not is_staff(principal):
        rows = rows.filter(conversation__in=conversations_for(principal))
    found = rows.filter(pk=run_id).first()
    if found is None:
        raise NotFound("Run not found.")
    return found


def runs_of(conversation: Conversation) -> QuerySet[Run]:
    """All runs of a conversation, oldest first, with their steps."""
    return (
        Run.objects.filter(conversation=conversation, parent=None)
        .order_by("id")
        .prefetch_related(Prefetch("steps", queryset=Step.objects.order_by("seq")))
    )


def tool_calls_of(run: Run) -> QuerySet[ToolCall]:
    """The calls that a run proposed, in order."""
    return calls_of_run(run.pk).select_related("approval")


def answer_of(run: Run) -> str | None:
    """What the run answered, if it has."""
    message = Message.objects.filter(run=run, speaker=Speaker.ASSISTANT).first()
    return None if message is None else message.text

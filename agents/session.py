"""What one open page may do and see: the ORM half of its socket, always in the tenant's scope."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from django.conf import settings
from django.utils.translation import get_supported_language_variant, override
from django.utils.translation import gettext as _

from agents import selectors, services
from agents.following import Outcome
from agents.models import Conversation, Message, Run, RunState
from agents.posting import message_admit
from agents.timeline import message_data, undo_data
from approvals import services as approvals
from approvals.models import Gate
from approvals.selectors import request_get
from boxoffice.common.batch import Answer, Batch
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.away import DatabaseAway, database_away
from boxoffice.tenancy.principals import (
    Principal,
    principal_ask,
    principal_of_member,
    principal_read,
)
from boxoffice.tenancy.scope import tenant_scope
from tools.models import Undo

# A message becomes visible at its commit, which can be later than the time it carries.
OVERLAP = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What the database shows now: runs under way, followed runs that are over, new messages.

    ``undone`` are the calls whose undoing has come to an end, with that end.
    """

    unfinished: list[UUID]
    over: list[UUID]
    messages: list[UUID]
    undone: list[tuple[UUID, str]]


class ChatSession:
    """A principal in one conversation. Who they are is asked anew before each thing they do."""

    def __init__(
        self, *, tenant_id: UUID, principal: Principal, conversation_id: UUID, language: str
    ) -> None:
        self.conversation_id = conversation_id
        self._tenant_id = tenant_id
        self._principal = principal
        self._language = _known_language(language)
        self._seen_at = now()

    async def open(self) -> set[UUID]:
        """The messages said so far; raises ``NotFound`` when it is not theirs to see."""
        return await self._in_scope(self._open)

    async def glance(self, *, followed: Collection[UUID]) -> Glance:
        """Look at the conversation again; raises ``NotFound`` when it is theirs no more."""
        return await self._in_scope(self._glance, followed)

    async def message(self, message_id: UUID) -> JsonObject | None:
        """One message as the page is told of it."""
        return await self._in_scope(self._message, message_id)

    async def outcome(self, run_id: UUID) -> Outcome | None:
        """How a run ended, if it has."""
        return await self._in_scope(self._outcome, run_id)

    async def runs_known(self, run_ids: Collection[UUID]) -> set[UUID]:
        """Those of the runs that belong to this conversation."""
        return await self._in_scope(self._runs_known, run_ids)

    async def post(self, *, text: Any, client_id: str | None) -> JsonObject:
        """Store a message."""
        return await self._in_scope(self._post, text, client_id)

    async def cancel(self, *, run_id: UUID, undo: bool) -> None:
        """Stop a run of this conversation; ``undo`` takes back what it did."""
        await self._in_scope(self._cancel, run_id, undo)

    async def undone(self, call_id: UUID) -> JsonObject | None:
        """What became of the undoing of a call, as the page is told of it."""
        return await self._in_scope(self._undone, call_id)

    async def decide(self, *, verb: str, approval_id: UUID) -> None:
        """Confirm, decline or withdraw what waits in this conversation."""
        await self._in_scope(self._decide, verb, approval_id)

    def words(self, error: BoxOfficeError) -> str:
        """The error in a sentence or two."""
        return f"{error.message} {error.hint}".strip()

    def database_away(self) -> DatabaseAway:
        """What to tell the page when PostgreSQL is away."""
        with override(self._language):
            return database_away()

    def stream_is_away(self) -> str:
        """What to tell the page when Valkey is away."""
        with override(self._language):
            return _("Live updates are away for the moment. Your messages are still saved.")

    async def _in_scope[**P, R](self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        def scoped() -> R:
            with tenant_scope(self._tenant_id), override(self._language):
                return work(*args, **kwargs)

        # Any thread will do: all pages of a process would wait in line for the sensitive one.
        result: R = await database_sync_to_async(scoped, thread_sensitive=False)()
        return result

    def _who(self) -> Principal:
        user_id = self._principal.user_id
        if user_id is None:
            return self._principal
        fresh = principal_of_member(tenant_id=self._tenant_id, user_id=user_id)
        if fresh is None:
            raise NotFound("Conversation not found.")
        return fresh

    def _open(self) -> set[UUID]:
        batch = Batch()
        batch.add(_MESSAGES, [self._tenant_id, self.conversation_id])
        (said,) = self._seen_by_its_owner(batch)
        return set(_ids(said))

    def _glance(self, followed: Collection[UUID]) -> Glance:
        since, looked_at = self._seen_at - OVERLAP, now()
        here = [self._tenant_id, self.conversation_id]
        batch = Batch()
        batch.add(_UNFINISHED, here)
        batch.add(_OVER, [*here, list(followed)])
        batch.add(_SAID, [*here, since])
        batch.add(_UNDONE, here)
        unfinished, over, said, undone = self._seen_by_its_owner(batch)
        self._seen_at = looked_at  # a glance that failed has seen nothing
        return Glance(
            unfinished=_ids(unfinished),
            over=_ids(over),
            messages=_ids(said),
            undone=[(call_id, state) for call_id, state in undone.rows],
        )

    def _seen_by_its_owner(self, questions: Batch) -> list[Answer]:
        """The answers, if the conversation is still the principal's to see; else ``NotFound``."""
        user_id = self._principal.user_id
        batch = Batch()
        batch.add(_OWNER, [self._tenant_id, self.conversation_id])
        if user_id is not None:
            principal_ask(batch, tenant_id=self._tenant_id, user_id=user_id)
        asked = len(batch)
        batch.extend(questions)
        answers = batch.send()
        principal: Principal | None = self._principal
        if user_id is not None:
            principal = principal_read(answers[1], tenant_id=self._tenant_id, user_id=user_id)
        owners = answers[0].rows
        if principal is None or not owners:
            raise NotFound("Conversation not found.")
        ((owner_id, visitor),) = owners
        mine = Conversation(user_id=owner_id, visitor=visitor)
        if not services.owns(principal, mine) and not selectors.is_staff(principal):
            raise NotFound("Conversation not found.")
        return answers[asked:]

    def _message(self, message_id: UUID) -> JsonObject | None:
        message = Message.objects.filter(
            pk=message_id, conversation_id=self.conversation_id
        ).first()
        return None if message is None else message_data(message)

    def _outcome(self, run_id: UUID) -> Outcome | None:
        batch = Batch()
        batch.add(_OVER, [self._tenant_id, self.conversation_id, [run_id]])
        if not batch.send()[0].rows:
            return None
        run = Run.objects.get(pk=run_id)
        final = run.steps.order_by("seq").last()
        return Outcome(
            state=RunState(run.state),
            answer=selectors.answer_of(run) or "",
            is_handoff=final is not None and bool(final.content.get("handoff")),
        )

    def _runs_known(self, run_ids: Collection[UUID]) -> set[UUID]:
        mine = Run.objects.filter(conversation_id=self.conversation_id, pk__in=list(run_ids))
        return set(mine.values_list("pk", flat=True))

    def _post(self, text: Any, client_id: str | None) -> JsonObject:
        principal = self._who()
        message_admit(principal=principal, conversation_id=self.conversation_id, key=client_id)
        posted = services.message_post(
            principal=principal,
            conversation_id=self.conversation_id,
            text=text,
            client_id=client_id,
        )
        return message_data(posted.message)

    def _cancel(self, run_id: UUID, undo: bool) -> None:
        if run_id not in self._runs_known([run_id]):
            raise NotFound(_("No such run in this conversation."))
        services.run_cancel(principal=self._who(), run_id=run_id, undo=undo)

    def _undone(self, call_id: UUID) -> JsonObject | None:
        undo = Undo.objects.select_related("call").filter(
            call_id=call_id, conversation_ref=self.conversation_id
        )
        found = undo.first()
        return None if found is None else undo_data(found)

    def _decide(self, verb: str, approval_id: UUID) -> None:
        principal = self._who()
        request = request_get(principal=principal, request_id=approval_id)
        is_here = request.conversation_ref == self.conversation_id
        if not is_here or (verb != "withdraw" and request.gate != Gate.FAN):
            raise NotFound(_("Nothing like that waits in this conversation."))
        if verb == "confirm":
            approvals.approve(request_id=approval_id, principal=principal)
        elif verb == "decline":
            approvals.deny(request_id=approval_id, principal=principal)
        else:
            approvals.withdraw(request_id=approval_id, principal=principal)


_OWNER = "SELECT user_id, visitor FROM agents_conversation WHERE tenant_id = %s AND id = %s"
_MESSAGES = "SELECT id FROM agents_message WHERE tenant_id = %s AND conversation_id = %s"
_SAID = f"{_MESSAGES} AND created_at >= %s AND speaker <> 'assistant' ORDER BY id"
_RUNS = "SELECT id FROM agents_run WHERE tenant_id = %s AND conversation_id = %s"
_UNFINISHED = f"{_RUNS} AND state IN ('queued', 'running', 'waiting') ORDER BY id"
_OVER = f"{_RUNS} AND id = ANY(%s) AND state NOT IN ('queued', 'running', 'waiting')"

_UNDONE = """
SELECT call_id, state FROM tools_undo
WHERE tenant_id = %s AND conversation_ref = %s AND state <> 'due' ORDER BY finished_at
"""


def _ids(answer: Answer) -> list[UUID]:
    return [row[0] for row in answer.rows]


def _known_language(code: str) -> str:
    try:
        return get_supported_language_variant(code)
    except LookupError:
        return settings.LANGUAGE_CODE

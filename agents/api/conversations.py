"""The REST doors of conversations and their messages."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents import selectors, services
from agents.api.serializers import (
    ConversationBody,
    ConversationSerializer,
    MessageBody,
    MessageSerializer,
    PostedSerializer,
)
from agents.models import Conversation, Message
from agents.posting import message_admit
from boxoffice.common.exceptions import Forbidden
from boxoffice.tenancy.rest import (
    NewestFirst,
    OldestFirst,
    flag,
    idempotent,
    principal_of,
    read_body,
)


class LongestWaiting(NewestFirst):
    """Cursor pages of what waits for a person."""

    ordering = ("handoff_at", "id")


class ConversationList(ListAPIView[Conversation]):
    """The principal's conversations, and the door to a new one."""

    serializer_class = ConversationSerializer
    queryset = Conversation.objects

    @property
    def paginator(self) -> BasePagination:
        """Newest first; what waits for a person, longest first."""
        if not hasattr(self, "_pages"):
            self._pages = LongestWaiting() if self._is_handoff() else NewestFirst()
        return self._pages

    def _is_handoff(self) -> bool:
        request = getattr(self, "request", None)
        return request is not None and flag(request, "handoff")

    @extend_schema(
        operation_id="conversations_list",
        parameters=[
            OpenApiParameter(
                "handoff", bool, description="Staff: the conversations that wait for a person."
            )
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Own conversations, newest first."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Conversation]:
        """The rows that this principal may see."""
        principal = principal_of(self.request)
        if not self._is_handoff():
            return selectors.conversations_for(principal).select_related("user")
        if not selectors.is_staff(principal):
            raise Forbidden("Only the people of the box office see who waits for one.")
        return selectors.handoffs().select_related("user")

    @extend_schema(
        operation_id="conversations_create",
        request=ConversationBody,
        responses={201: ConversationSerializer},
    )
    def post(self, request: Request) -> Response:
        """Open a conversation."""
        body = read_body(ConversationBody, request)
        principal = principal_of(request)

        def act() -> Response:
            made = services.conversation_create(
                principal=principal, language=body.get("language") or request.LANGUAGE_CODE
            )
            return Response(ConversationSerializer(made).data, status=status.HTTP_201_CREATED)

        return idempotent(request, act)


class ConversationDetail(APIView):
    """One conversation."""

    @extend_schema(operation_id="conversations_get", responses=ConversationSerializer)
    def get(self, request: Request, conversation_id: UUID) -> Response:
        """The conversation."""
        found = selectors.conversation_get(
            principal=principal_of(request), conversation_id=conversation_id
        )
        return Response(ConversationSerializer(found).data)


class MessageList(ListAPIView[Message]):
    """What is said in a conversation."""

    serializer_class = MessageSerializer
    pagination_class = OldestFirst
    queryset = Message.objects

    @extend_schema(operation_id="messages_list")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Everything said, oldest first."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Message]:
        """The messages of the conversation in the path."""
        conversation = selectors.conversation_get(
            principal=principal_of(self.request), conversation_id=self.kwargs["conversation_id"]
        )
        return selectors.messages_of(conversation)

    @extend_schema(
        operation_id="messages_create", request=MessageBody, responses={202: PostedSerializer}
    )
    def post(self, request: Request, conversation_id: UUID) -> Response:
        """Say something; the run answers it. A person of the box office answers the fan."""
        body = read_body(MessageBody, request)
        principal = principal_of(request)
        key = body.get("client_id") or request.headers.get("Idempotency-Key")
        message_admit(principal=principal, conversation_id=conversation_id, key=key)

        def act() -> Response:
            posted = services.message_post(
                principal=principal,
                conversation_id=conversation_id,
                text=body["text"],
                client_id=body.get("client_id"),
            )
            run = posted.run
            return Response(
                {"message": str(posted.message.pk), "run": str(run.pk) if run else None},
                status=status.HTTP_202_ACCEPTED,
            )

        return idempotent(request, act)

"""The REST doors of what the machine cannot settle: for those who may configure the tenant.

To everybody else the lists are forbidden, and what is in them does not exist.
"""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from boxoffice.common.exceptions import Forbidden
from boxoffice.tenancy.principals import Principal
from boxoffice.tenancy.rest import (
    Body,
    IsMember,
    OldestFirst,
    Text,
    idempotent,
    principal_of,
    read_body,
    repeated,
)
from tools import compensation, settling
from tools.effects import effective_arguments
from tools.models import CallState, RemoteEffect, ToolCall, Undo, UndoReason, UndoState
from tools.notes import NOTE_MOST

DONE, NOT_DONE = "done", "not_done"


def _name_of(call: ToolCall) -> str | None:
    return None if call.user is None else call.user.get_username()


class UnknownCallSerializer(serializers.ModelSerializer[RemoteEffect]):
    """A call that another party has done or not: what was asked, of whom, and what was heard."""

    id = serializers.UUIDField(source="call_id", read_only=True)
    tool = serializers.CharField(source="call.tool", read_only=True)
    arguments = serializers.SerializerMethodField()
    asked_for = serializers.SerializerMethodField()
    state = serializers.ChoiceField(source="call.state", choices=CallState.choices, read_only=True)
    key = serializers.CharField(
        source="call.idempotency_key", read_only=True, help_text="What the other side knows it by."
    )
    request = serializers.JSONField(read_only=True)
    attempts = serializers.IntegerField(source="call.attempts", read_only=True)
    unknown_since = serializers.DateTimeField(source="unknown_at", read_only=True, allow_null=True)
    last_heard = serializers.JSONField(source="found", read_only=True)
    last_heard_at = serializers.DateTimeField(source="found_at", read_only=True, allow_null=True)
    looked_up_at = serializers.DateTimeField(
        source="due_at",
        read_only=True,
        allow_null=True,
        help_text="When it is looked up next; null: no more.",
    )
    run = serializers.UUIDField(source="call.run_ref", read_only=True, allow_null=True)
    conversation = serializers.UUIDField(
        source="call.conversation_ref", read_only=True, allow_null=True
    )
    note = serializers.CharField(source="settled_note", read_only=True)

    class Meta:
        model = RemoteEffect
        fields = [
            "id",
            "tool",
            "arguments",
            "asked_for",
            "state",
            "provider",
            "key",
            "request",
            "sent_at",
            "attempts",
            "unknown_since",
            "last_heard",
            "last_heard_at",
            "looked_up_at",
            "run",
            "conversation",
            "settled_by",
            "settled_at",
            "note",
        ]
        read_only_fields = fields

    def get_arguments(self, effect: RemoteEffect) -> Any:
        """The arguments with which it was asked for: those that its human agreed to."""
        return effective_arguments(effect.call)

    def get_asked_for(self, effect: RemoteEffect) -> str | None:
        """The user name of the fan for whom it is."""
        return _name_of(effect.call)


class UndoSerializer(serializers.ModelSerializer[Undo]):
    """What a run did and could not be taken back."""

    call = serializers.UUIDField(source="call_id", read_only=True)
    tool = serializers.CharField(source="call.tool", read_only=True)
    arguments = serializers.JSONField(source="call.arguments", read_only=True)
    result = serializers.JSONField(source="call.result", read_only=True)
    asked_for = serializers.SerializerMethodField()
    state = serializers.ChoiceField(choices=UndoState.choices, read_only=True)
    reason = serializers.ChoiceField(choices=UndoReason.choices, read_only=True)
    error = serializers.JSONField(read_only=True)
    run = serializers.UUIDField(source="run_ref", read_only=True)
    conversation = serializers.UUIDField(source="conversation_ref", read_only=True, allow_null=True)

    class Meta:
        model = Undo
        fields = [
            "id",
            "call",
            "tool",
            "arguments",
            "result",
            "asked_for",
            "state",
            "reason",
            "attempts",
            "error",
            "run",
            "conversation",
            "created_at",
            "finished_at",
            "note",
        ]
        read_only_fields = fields

    def get_asked_for(self, undo: Undo) -> str | None:
        """The user name of the fan for whom it was done."""
        return _name_of(undo.call)


class SettleCallBody(Body):
    """What became of it, and how one knows."""

    outcome = serializers.ChoiceField(choices=[DONE, NOT_DONE])
    note = Text(max_length=NOTE_MOST)


class SettleUndoBody(Body):
    """What was done about it."""

    note = Text(max_length=NOTE_MOST)


class LookUpBody(Body):
    """Nothing to say."""


class RetryBody(Body):
    """Nothing to say."""


class UnknownCallList(ListAPIView[RemoteEffect]):
    """Calls whose outcome nobody knows."""

    permission_classes = [IsMember]
    serializer_class = UnknownCallSerializer
    pagination_class = OldestFirst

    @extend_schema(operation_id="unknown_calls_list")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One page of what waits for a person, what was asked for first before the rest."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[RemoteEffect]:
        """Those of the tenant."""
        _require(principal_of(self.request))
        return settling.unknown_calls()


class UnknownCallDetail(APIView):
    """One call that another party had a part in, also when it is known by now."""

    permission_classes = [IsMember]

    @extend_schema(operation_id="unknown_calls_get", responses=UnknownCallSerializer)
    def get(self, request: Request, call_id: UUID) -> Response:
        """How it stands."""
        return _call(principal_of(request), call_id)


class UnknownCallLookUp(APIView):
    """Once more."""

    permission_classes = [IsMember]

    @extend_schema(
        operation_id="unknown_calls_look_up",
        request=LookUpBody,
        responses={200: UnknownCallSerializer},
    )
    def post(self, request: Request, call_id: UUID) -> Response:
        """Ask the other side what became of it: `state` says whether that is known now.

        Nothing is sent again. 409 (`already_settled`) when it was known before.
        """
        principal = principal_of(request)
        read_body(LookUpBody, request)
        known = repeated(request)
        if known is not None:
            return known
        settling.effect_get(call_id=call_id, by=principal)
        finding = settling.call_ask(call_id=call_id, by=principal)

        def act() -> Response:
            settling.call_heard(call_id=call_id, finding=finding, by=principal)
            return _call(principal, call_id)

        return idempotent(request, act)


class UnknownCallSettle(APIView):
    """A person has found out."""

    permission_classes = [IsMember]

    @extend_schema(
        operation_id="unknown_calls_settle",
        request=SettleCallBody,
        responses={200: UnknownCallSerializer},
    )
    def post(self, request: Request, call_id: UUID) -> Response:
        """Write down once that it was `done` or `not_done`; the order and the fan's chat follow.

        403 for a call in one's own name. 409 (`already_settled`) when somebody, or a look-up, was
        faster.
        """
        principal = principal_of(request)
        body = read_body(SettleCallBody, request)

        def act() -> Response:
            settling.effect_get(call_id=call_id, by=principal)
            settling.call_settle(
                call_id=call_id,
                happened=body["outcome"] == DONE,
                note=body["note"],
                by=principal,
            )
            return _call(principal, call_id)

        return idempotent(request, act)


class UndoList(ListAPIView[Undo]):
    """What runs did and the machine could not take back."""

    permission_classes = [IsMember]
    serializer_class = UndoSerializer
    pagination_class = OldestFirst

    @extend_schema(operation_id="undos_list")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One page of what waits for a person, oldest first."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Undo]:
        """Those of the tenant."""
        _require(principal_of(self.request))
        return compensation.undos_stuck()


class UndoDetail(APIView):
    """One effect, also when it was taken back by now."""

    permission_classes = [IsMember]

    @extend_schema(operation_id="undos_get", responses=UndoSerializer)
    def get(self, request: Request, undo_id: UUID) -> Response:
        """How it stands."""
        return _undo(principal_of(request), undo_id)


class UndoRetry(APIView):
    """Once more."""

    permission_classes = [IsMember]

    @extend_schema(operation_id="undos_retry", request=RetryBody, responses={200: UndoSerializer})
    def post(self, request: Request, undo_id: UUID) -> Response:
        """Let the machine try again; 409 unless it waits for a person."""
        principal = principal_of(request)
        read_body(RetryBody, request)

        def act() -> Response:
            compensation.undo_get(undo_id=undo_id, by=principal)
            compensation.undo_retry(undo_id=undo_id, actor=principal.key)
            return _undo(principal, undo_id)

        return idempotent(request, act)


class UndoSettle(APIView):
    """A person has seen to it."""

    permission_classes = [IsMember]

    @extend_schema(
        operation_id="undos_settle", request=SettleUndoBody, responses={200: UndoSerializer}
    )
    def post(self, request: Request, undo_id: UUID) -> Response:
        """Close it with a note; 409 unless it waits for a person."""
        principal = principal_of(request)
        body = read_body(SettleUndoBody, request)

        def act() -> Response:
            compensation.undo_get(undo_id=undo_id, by=principal)
            compensation.undo_settle(undo_id=undo_id, note=body["note"], actor=principal.key)
            return _undo(principal, undo_id)

        return idempotent(request, act)


def _require(principal: Principal) -> None:
    if not principal.may("configure"):
        raise Forbidden(_("You may not settle unknown outcomes."))


def _call(principal: Principal, call_id: UUID) -> Response:
    effect = settling.effect_get(call_id=call_id, by=principal)
    return Response(UnknownCallSerializer(effect).data)


def _undo(principal: Principal, undo_id: UUID) -> Response:
    return Response(UndoSerializer(compensation.undo_get(undo_id=undo_id, by=principal)).data)

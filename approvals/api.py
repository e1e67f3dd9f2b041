"""The REST doors of approvals."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.generics import ListAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from approvals import selectors, services
from approvals.models import ApprovalRequest, State, Verb
from boxoffice.tenancy.principals import Principal
from boxoffice.tenancy.rest import Body, IsMember, Text, flag, idempotent, principal_of, read_body


class ApprovalSerializer(serializers.ModelSerializer[ApprovalRequest]):
    """An approval request as its readers see it."""

    tool = serializers.CharField(source="action", read_only=True)
    arguments = serializers.JSONField(source="effective_arguments", read_only=True)
    asked_arguments = serializers.JSONField(source="arguments", read_only=True)
    state = serializers.ChoiceField(source="effective_state", choices=State.choices, read_only=True)
    preview = serializers.JSONField(source="effective_preview", read_only=True)
    run = serializers.UUIDField(source="run_ref", read_only=True)
    conversation = serializers.UUIDField(source="conversation_ref", read_only=True)
    requested_for = serializers.SerializerMethodField()
    approvals = serializers.SerializerMethodField()
    decided_by = serializers.SerializerMethodField()
    decided_at = serializers.SerializerMethodField()
    note = serializers.SerializerMethodField()

    class Meta:
        model = ApprovalRequest
        fields = [
            "id",
            "gate",
            "tool",
            "arguments",
            "asked_arguments",
            "state",
            "created_at",
            "expires_at",
            "preview",
            "run",
            "conversation",
            "requested_for",
            "reason",
            "risk",
            "rule",
            "quorum",
            "approvals",
            "decided_by",
            "decided_at",
            "note",
        ]
        read_only_fields = fields

    def get_requested_for(self, request: ApprovalRequest) -> str | None:
        """The user name of the fan for whom it is."""
        return request.requested_for.get_username() if request.requested_for else None

    def get_approvals(self, request: ApprovalRequest) -> int:
        """How many have approved so far."""
        return sum(one.verb == Verb.APPROVE for one in request.decisions.all())

    def get_decided_by(self, request: ApprovalRequest) -> str | None:
        """Who had the last word; ``None`` while it is open, and for the clock."""
        decision = selectors.decision_of(request)
        if request.decided_at is None or decision is None or decision.user is None:
            return None
        return decision.user.get_username()

    @extend_schema_field(serializers.DateTimeField(allow_null=True))
    def get_decided_at(self, request: ApprovalRequest) -> str | None:
        """When it ended being open."""
        late = request.decided_at is None and request.effective_state == State.EXPIRED
        moment = request.expires_at if late else request.decided_at
        return str(serializers.DateTimeField().to_representation(moment)) if moment else None

    def get_note(self, request: ApprovalRequest) -> str:
        """The note or reason of the last word."""
        decision = selectors.decision_of(request)
        return decision.note if decision else ""


class ApproveBody(Body):
    """Yes, perhaps with other arguments."""

    arguments = serializers.DictField(required=False)
    note = Text(required=False, allow_blank=True, max_length=services.TEXT_MAX, default="")


class DenyBody(Body):
    """No, and why."""

    reason = Text(required=False, allow_blank=True, max_length=services.TEXT_MAX, default="")


class EmptyBody(Body):
    """Nothing to say."""


class ApprovalList(ListAPIView[ApprovalRequest]):
    """A reviewer's inbox of the tenant, or a fan's own confirmations."""

    permission_classes = [IsMember]
    serializer_class = ApprovalSerializer

    @extend_schema(
        operation_id="approvals_list",
        parameters=[
            OpenApiParameter("state", enum=State.values, description="Only in this state."),
            OpenApiParameter("tool", description="Only for this tool (a reviewer's inbox)."),
            OpenApiParameter("mine", bool, description="A reviewer's own confirmations instead."),
        ],
    )
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One page, newest first."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[ApprovalRequest]:
        """The rows that this principal may see."""
        principal, query = principal_of(self.request), self.request.query_params
        state = query.get("state")
        is_own = flag(self.request, "mine")
        if principal.may("review_actions") and not is_own:
            return selectors.inbox_list(principal=principal, state=state, action=query.get("tool"))
        return selectors.own_confirmations(principal=principal, state=state)


class ApprovalDetail(APIView):
    """One request."""

    permission_classes = [IsMember]

    @extend_schema(operation_id="approvals_get", responses=ApprovalSerializer)
    def get(self, request: Request, request_id: UUID) -> Response:
        """The request, if it is the principal's to see."""
        return _answer(principal_of(request), request_id)


class ApprovalApprove(APIView):
    """Yes."""

    permission_classes = [IsMember]

    @extend_schema(
        operation_id="approvals_approve", request=ApproveBody, responses={200: ApprovalSerializer}
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Approve, or edit and approve."""
        principal = principal_of(request)
        body = read_body(ApproveBody, request)

        def act() -> Response:
            services.approve(
                request_id=request_id,
                principal=principal,
                note=body["note"],
                arguments=body.get("arguments"),
            )
            return _answer(principal, request_id)

        return idempotent(request, act)


class ApprovalDeny(APIView):
    """No."""

    permission_classes = [IsMember]

    @extend_schema(
        operation_id="approvals_deny", request=DenyBody, responses={200: ApprovalSerializer}
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Deny with a reason, or decline."""
        principal = principal_of(request)
        body = read_body(DenyBody, request)

        def act() -> Response:
            services.deny(request_id=request_id, principal=principal, reason=body["reason"])
            return _answer(principal, request_id)

        return idempotent(request, act)


class ApprovalWithdraw(APIView):
    """Never mind."""

    permission_classes = [IsMember]

    @extend_schema(
        operation_id="approvals_withdraw", request=EmptyBody, responses={200: ApprovalSerializer}
    )
    def post(self, request: Request, request_id: UUID) -> Response:
        """Take the request back."""
        principal = principal_of(request)
        read_body(EmptyBody, request)

        def act() -> Response:
            services.withdraw(request_id=request_id, principal=principal)
            return _answer(principal, request_id)

        return idempotent(request, act)


def _answer(principal: Principal, request_id: UUID) -> Response:
    row = selectors.request_get(principal=principal, request_id=request_id)
    return Response(ApprovalSerializer(row).data)

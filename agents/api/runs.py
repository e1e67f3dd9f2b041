"""The REST doors of runs."""

from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.generics import ListAPIView
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents import selectors, services
from agents.api import events
from agents.api.serializers import (
    CancelBody,
    RunEventSerializer,
    RunSerializer,
    StepSerializer,
    ToolCallSerializer,
)
from agents.models import Run, Step
from boxoffice.common.exceptions import InvalidInput
from boxoffice.tenancy.rest import OldestFirst, idempotent, principal_of, read_body
from tools.models import ToolCall

MAX_SEQ = 2**53


class RunDetail(APIView):
    """One run."""

    @extend_schema(operation_id="runs_get", responses=RunSerializer)
    def get(self, request: Request, run_id: UUID) -> Response:
        """Where the run is, and what it has answered."""
        return Response(RunSerializer(_run(request, run_id)).data)


class RunCancel(APIView):
    """The stop button."""

    @extend_schema(operation_id="runs_cancel", request=CancelBody, responses={202: RunSerializer})
    def post(self, request: Request, run_id: UUID) -> Response:
        """Stop the run, with what it has said so far as its answer. 409 when it is over.

        A stop that was accepted wins over an answer that comes after it. What the run did stays
        as it is unless `compensate` is true.
        """
        undo = read_body(CancelBody, request)["compensate"]

        def act() -> Response:
            run = services.run_cancel(principal=principal_of(request), run_id=run_id, undo=undo)
            return Response(RunSerializer(run).data, status=status.HTTP_202_ACCEPTED)

        return idempotent(request, act)


class BySeq(OldestFirst):
    """Cursor pages of steps."""

    ordering = "seq"


class StepList(ListAPIView[Step]):
    """What each step added."""

    serializer_class = StepSerializer
    pagination_class = BySeq
    queryset = Step.objects

    @extend_schema(operation_id="runs_steps")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The committed steps of the run, in order."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[Step]:
        """The steps of the run in the path."""
        run = _run(self.request, self.kwargs["run_id"])
        rows: QuerySet[Step] = Step.objects.filter(run=run)
        return rows


class ToolCallList(ListAPIView[ToolCall]):
    """What the model asked for."""

    serializer_class = ToolCallSerializer
    pagination_class = OldestFirst
    queryset = ToolCall.objects

    @extend_schema(operation_id="runs_tool_calls")
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """The calls that the run proposed, allowed or not, in order."""
        return super().get(request, *args, **kwargs)

    def get_queryset(self) -> QuerySet[ToolCall]:
        """The calls of the run in the path."""
        return selectors.tool_calls_of(_run(self.request, self.kwargs["run_id"]))


class RunEvents(APIView):
    """The events of a run, as the page gets them."""

    renderer_classes = [JSONRenderer, events.EventStreamRenderer]

    @extend_schema(
        operation_id="runs_events",
        parameters=[
            OpenApiParameter(
                "after",
                {"type": "integer", "minimum": 0, "maximum": MAX_SEQ},
                description="Only events with a higher number. "
                "An event stream also takes it from Last-Event-ID.",
            )
        ],
        responses={
            (200, "application/json"): RunEventSerializer(many=True),
            (200, "text/event-stream"): str,
        },
    )
    def get(self, request: Request, run_id: UUID) -> HttpResponseBase:
        """A list of what there is, or a live stream that ends with `run.finished`."""
        after = _after(request)
        run = _run(request, run_id)
        if request.accepted_renderer.media_type == events.EventStreamRenderer.media_type:
            return events.stream_response(run, after)
        return Response(events.event_list(run, after))


def _run(request: Request, run_id: UUID) -> Run:
    return selectors.run_get(principal=principal_of(request), run_id=run_id)


def _after(request: Request) -> int:
    text = request.query_params.get("after") or request.headers.get("Last-Event-ID") or "0"
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > MAX_SEQ:
        raise InvalidInput("after: the number of an event, 0 or more.")
    return int(text)

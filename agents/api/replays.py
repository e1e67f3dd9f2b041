"""The REST doors of replays and forks."""

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from agents.api.replay_serializers import (
    MAX_STEP,
    ForkBody,
    ForkSerializer,
    ReplayBody,
    ReplaySerializer,
    ReportSerializer,
)
from agents.replay.dry import replay_dry
from agents.replay.fork import run_fork
from agents.replay.record import over_run_get
from agents.replay.service import replay_ask, replay_get
from boxoffice.common.exceptions import InvalidInput
from boxoffice.tenancy.rest import idempotent, principal_of, read_body


class RunReplay(APIView):
    """A run that is over, once more."""

    @extend_schema(
        operation_id="runs_replay",
        parameters=[
            OpenApiParameter(
                "from",
                {"type": "integer", "minimum": 1, "maximum": MAX_STEP},
                description="The step to begin at; 1 by default. Unknown steps are 422.",
            )
        ],
        responses={200: ReportSerializer},
    )
    def get(self, request: Request, run_id: UUID) -> Response:
        """Walk through it without a model: as it was sent, and what the guard says today.

        409 while the run is not over. Nothing is done and nothing is written.
        """
        from_step = _from(request)
        run = over_run_get(principal=principal_of(request), run_id=run_id)
        report = replay_dry(run=run, from_step=from_step)
        return Response(ReportSerializer(report.as_data()).data)

    @extend_schema(
        operation_id="runs_replay_ask", request=ReplayBody, responses={202: ReplaySerializer}
    )
    def post(self, request: Request, run_id: UUID) -> Response:
        """Ask the model again, from a step on; a worker does, and no tool runs.

        409 when the run is not over, or what the model was told is not known any more.
        """
        body = read_body(ReplayBody, request)

        def act() -> Response:
            replay = replay_ask(
                principal=principal_of(request), run_id=run_id, from_step=body["from_step"]
            )
            return Response(ReplaySerializer(replay).data, status=status.HTTP_202_ACCEPTED)

        return idempotent(request, act)


class ReplayDetail(APIView):
    """A replay with a model."""

    @extend_schema(operation_id="replays_get", responses=ReplaySerializer)
    def get(self, request: Request, replay_id: UUID) -> Response:
        """Where it is, and how the model's turns compare with the recorded ones."""
        found = replay_get(principal=principal_of(request), replay_id=replay_id)
        return Response(ReplaySerializer(found).data)


class RunFork(APIView):
    """A run that goes another way."""

    @extend_schema(operation_id="runs_fork", request=ForkBody, responses={201: ForkSerializer})
    def post(self, request: Request, run_id: UUID) -> Response:
        """Go on from a step in a new conversation of the caller, as the caller.

        409 when the run is not over, and (`replay_changed`, with `changes`) when prompt, tools or
        model are not what they were and `accept_changes` is not true.
        """
        body = read_body(ForkBody, request)

        def act() -> Response:
            fork = run_fork(
                principal=principal_of(request),
                run_id=run_id,
                from_step=body["from_step"],
                accept_changes=body.get("accept_changes", False),
            )
            return Response(ForkSerializer(fork).data, status=status.HTTP_201_CREATED)

        return idempotent(request, act)


def _from(request: Request) -> int:
    text = request.query_params.get("from", "1")
    if not (text.isascii() and text.isdigit()) or len(text) > 10 or not 1 <= int(text) <= MAX_STEP:
        raise InvalidInput("from: the number of a step, 1 or more.")
    return int(text)

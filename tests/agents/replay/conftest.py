"""Runs to be walked through again, made by a real worker and a scripted model."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock
from uuid import UUID

import pytest

from agents.models import Run
from agents.replay.dry import Report, replay_dry
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.ticketing.models import Hold
from boxoffice.ticketing.services.holds import hold_create
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker
from tools import registry


def walk(cast: Cast, run: Run, from_step: int = 1) -> Report:
    """The dry replay of a run."""
    with cast.scope():
        return replay_dry(run=Run.objects.get(pk=run.pk), from_step=from_step)


def codes(changes: Any) -> set[str]:
    return {change.code for change in changes}


@contextmanager
def without_tool(name: str) -> Iterator[None]:
    """As if a deployment had taken a tool away."""
    rest = {key: spec for key, spec in registry._tools.items() if key != name}
    with mock.patch.object(registry, "_tools", rest):
        yield


@contextmanager
def another_version(name: str, **changes: Any) -> Iterator[None]:
    """As if a deployment had changed a tool."""
    spec = registry._tools[name]
    told = {"description": f"{spec.description} It is another one now."} | changes
    with mock.patch.dict(registry._tools, {name: replace(spec, **told)}):
        yield


@pytest.fixture
def searched(arena: Cast, worker: Worker, model: ScriptedModel) -> Run:
    """ana asked, the model searched twice and answered: six steps and an end."""
    model.script(
        [
            Reply.tools(("search_events", {"query": "Show"}), text="Vou ver."),
            Reply.tools(
                ("search_seats", {"event_id": str(arena.seats.event.pk), "quantity": 2}),
                ("search_events", {}),
            ),
            Reply.text("Achei dois lugares."),
        ]
    )
    run = arena.post("ana", "dois lugares")
    worker.work(run)
    return arena.run(run.pk)


@pytest.fixture
def hold(arena: Cast) -> Hold:
    """ana's hold of two seats."""
    with arena.scope():
        return hold_create(
            event_id=arena.seats.event.pk,
            seat_ids=arena.seats.ids("B-A1", "B-A2"),
            user_id=arena.user("ana").pk,
        )


def holds_seats(arena: Cast, worker: Worker, model: ScriptedModel) -> Run:
    """ana has the model hold two seats."""
    seats = [str(pk) for pk in arena.seats.ids("B-A3", "B-A4")]
    arguments = {"event_id": str(arena.seats.event.pk), "seat_ids": seats}
    model.script([Reply.tools(("hold_seats", arguments)), Reply.text("Reservei.")])
    run = arena.post("ana", "reserve")
    worker.work(run)
    return arena.run(run.pk)


def buys(arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold, verb: str) -> Run:
    """ana is asked whether to buy, and says so: ``approve`` or ``deny``."""
    model.script([Reply.tools(("place_order", {"hold_id": str(hold.pk)})), Reply.text("Certo.")])
    run = arena.post("ana", "pode comprar")
    worker.work(run)
    decide(arena, run.pk, "ana", verb)
    worker.work(run)
    return arena.run(run.pk)


def decide(arena: Cast, run_id: UUID, name: str, verb: str, **about: Any) -> None:
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run_id, state="pending")
        decision = getattr(approvals, verb)
        decision(request_id=request.pk, principal=arena.principal(name), **about)

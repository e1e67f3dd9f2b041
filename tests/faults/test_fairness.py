"""One tenant's rush: another tenant goes next, no cap is passed, and no wake-up is needed twice."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import redis
from django.conf import settings
from django.db.models import Count, Max

from agents.handout import hand_out
from agents.models import Message, Run, RunState, Speaker
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import operator_scope
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.stack import Stack

RUSH = 60
CAP = 6
SLOTS = 4
WORKERS = 2
GIVE_UP_SECONDS = 90


@pytest.fixture
def stack(arena: Cast, model: ScriptedModel, tmp_path: Path) -> Iterator[Stack]:
    """Few slots, so that there is something to wait for."""
    env = {
        "ANTHROPIC_API_KEY": "scripted",
        "ANTHROPIC_BASE_URL": model.base_url,
        "RUNS_PER_PERSON": "1000",
    }
    with Stack(home=tmp_path, workers=WORKERS, web=False, concurrency=SLOTS, env=env) as live:
        yield live


class Watch:
    """The most runs of each tenant that were at work at once, looked at all the time."""

    def __init__(self) -> None:
        self.most: dict[UUID, int] = {}
        self.is_over = threading.Event()

    def look(self) -> None:
        with operator_scope("test"):
            rows = Run.objects.filter(state=RunState.RUNNING).values("tenant_id")
            for row in rows.annotate(count=Count("pk")):
                before = self.most.get(row["tenant_id"], 0)
                self.most[row["tenant_id"]] = max(before, row["count"])


def until(watch: Watch, condition: Any) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not condition():
        watch.look()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(cast: Cast) -> int:
    with cast.scope():
        return Run.objects.exclude(finished_at=None).count()


def at_work(cast: Cast) -> int:
    with cast.scope():
        return Run.objects.filter(state=RunState.RUNNING).count()


def once_each(cast: Cast, count: int) -> None:
    """Every run was claimed once, and answered once."""
    with cast.scope():
        assert Run.objects.filter(state=RunState.SUCCEEDED, lease_epoch=1).count() == count
        assert Message.objects.filter(speaker=Speaker.ASSISTANT).count() == count


def test_another_tenant_goes_next_in_a_rush(
    arena: Cast, teatro: Cast, stack: Stack, model: ScriptedModel
) -> None:
    Tenant.objects.filter(pk=arena.tenant.pk).update(max_concurrent_runs=CAP)
    go = threading.Event()
    model.route(lambda body: Reply.text("Pois não.", first_byte_delay=0.1).when(go))
    watch = Watch()
    for _ in range(RUSH):
        arena.post("ana", "oi")
    until(watch, lambda: at_work(arena) == CAP)

    newcomer = teatro.post("teo", "oi")  # there are slots for tenants that have none
    until(watch, lambda: teatro.run(newcomer.pk).state == RunState.RUNNING)
    assert (at_work(arena), ended(arena)) == (CAP, 0)

    second = teatro.post("teo", "e agora?")
    redis.Redis.from_url(settings.REDIS_URL).flushdb()  # every wake-up is lost
    go.set()
    until(watch, lambda: teatro.run(second.pk).state == RunState.SUCCEEDED)
    for _ in range(3):  # twice, late, and about a run that is over
        hand_out(teatro.tenant.pk, newcomer.pk)
        hand_out(teatro.tenant.pk, second.pk)
    until(watch, lambda: ended(arena) == RUSH)
    once_each(arena, RUSH)
    once_each(teatro, 2)
    assert watch.most[arena.tenant.pk] == CAP
    assert ended_before_the_answer(arena, teatro, second) <= WORKERS * SLOTS


def ended_before_the_answer(rush: Cast, other: Cast, run: Run) -> int:
    """How many runs of the rush came to their end before a run of another tenant did."""
    finished_at = other.run(run.pk).finished_at
    with rush.scope():
        return Run.objects.filter(finished_at__lt=finished_at).count()


def test_runs_whose_wake_ups_are_lost_come_to_their_turn(
    arena: Cast, stack: Stack, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.handout.hand_out", lambda tenant_id, run_id: None)
    Tenant.objects.filter(pk=arena.tenant.pk).update(max_concurrent_runs=2)
    model.route(lambda body: Reply.text("Pois não."))
    runs = [arena.post("ana", "oi") for _ in range(8)]
    watch = Watch()
    until(watch, lambda: ended(arena) == len(runs))
    once_each(arena, len(runs))
    assert watch.most.get(arena.tenant.pk, 0) <= 2
    with arena.scope():  # oldest first: the last to be finished is among the last that were asked
        last = Run.objects.aggregate(last=Max("finished_at"))["last"]
        assert Run.objects.get(finished_at=last).pk in {run.pk for run in runs[-3:]}

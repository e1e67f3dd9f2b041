"""How long a fan waits for the first token while another tenant has hundreds of runs queued."""

import json
import time
from typing import Any

import redis
from django.conf import settings

from agents import handout, leases
from agents.models import Run
from agents.stream import stream_key
from benchmarks.processes import paced_model, site
from benchmarks.sizes import Size
from benchmarks.stage import Stage, make_stage, no_wake_ups, wish
from benchmarks.table import Figure, Row, quantile
from boxoffice.tenancy.scope import operator_scope, tenant_scope

DELAY_MS = 100.0
TOKENS = 10
WORKERS = 2
SLOTS = 20
PAUSE_SECONDS = 0.2
GIVE_UP_SECONDS = 60.0


def measure(size: Size) -> Figure:
    """Ask as one tenant: first alone, then while the other has its rush."""
    rush = make_stage("bench-rush", fans=size.rush, tools=[])
    other = make_stage("bench-other", fans=1, tools=[])
    text = wish(tokens=TOKENS, delay_ms=DELAY_MS)
    with (
        paced_model() as (url, _),
        site(model=url, workers=WORKERS, web=False, runs_per_worker=SLOTS),
    ):
        for _ in range(3):
            _first_token_ms(other, text)  # connections, imports
        idle = [_first_token_ms(other, text) for _ in range(size.rush_talks)]
        runs = _queue(rush, size.rush, text)
        for run in runs:
            handout.hand_out(run.tenant_id, run.pk)
        _wait_begun(rush)
        busy: list[float] = []
        while len(busy) < size.rush_talks and _queued(rush) > 0:
            busy.append(_first_token_ms(other, text))
            time.sleep(PAUSE_SECONDS)
        left = _queued(rush)
        _wait_ended(rush)
    claims = _claim_ms(rush, size)
    ratio = quantile(busy, 0.5) / quantile(idle, 0.5)
    return Figure(
        name="fairness",
        title=(
            f"First token of another tenant, {size.rush} runs queued by one "
            f"({WORKERS} workers x {SLOTS} slots, {TOKENS} tokens at {DELAY_MS:.0f} ms)"
        ),
        rows=[
            Row(figure="idle, p50", value=quantile(idle, 0.5), unit="ms"),
            Row(figure="idle, p95", value=quantile(idle, 0.95), unit="ms"),
            Row(figure="during the rush, p50", value=quantile(busy, 0.5), unit="ms"),
            Row(figure="during the rush, p95", value=quantile(busy, 0.95), unit="ms"),
            Row(figure="during / idle, p50", value=ratio, unit="x", expected="<= 2 x"),
            Row(
                figure="during / idle, p95",
                value=quantile(busy, 0.95) / quantile(idle, 0.95),
                unit="x",
            ),
            Row(figure="  questions during the rush", value=len(busy), unit=""),
            Row(figure="  runs of the rush still queued after the last", value=left, unit=""),
            Row(
                figure="one claim from as long a line, p50", value=quantile(claims, 0.5), unit="ms"
            ),
            Row(
                figure="one claim from as long a line, p95",
                value=quantile(claims, 0.95),
                unit="ms",
            ),
        ],
        remarks=["From the message's transaction to its first token in the run's stream."],
    )


def _first_token_ms(stage: Stage, text: str) -> float:
    """Post a message, and follow its run to the first token; the run goes on by itself."""
    client: Any = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=None)
    fan = stage.fans[0]
    with tenant_scope(stage.tenant.pk):
        conversation = stage.conversation(fan)
        started = time.perf_counter()
        run = stage.post(conversation, fan, text)
    key, seen = stream_key(run.pk), b"0"
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while time.monotonic() < deadline:
        client.xread({key: seen}, block=1000, count=1)  # waits for what is new
        for entry_id, fields in client.xrange(key, min=f"({seen.decode()}"):
            seen = entry_id
            if json.loads(fields[b"e"])["type"] == "text.delta":
                client.close()
                return (time.perf_counter() - started) * 1000
    raise TimeoutError("no token came")


def _queue(stage: Stage, count: int, text: str) -> list[Run]:
    with no_wake_ups(), tenant_scope(stage.tenant.pk):
        return [stage.post(stage.conversation(fan), fan, text) for fan in stage.fans[:count]]


def _count(stage: Stage, **about: Any) -> int:
    with tenant_scope(stage.tenant.pk):
        return Run.objects.filter(**about).count()


def _queued(stage: Stage) -> int:
    return _count(stage, state="queued")


def _wait_begun(stage: Stage) -> None:
    deadline = time.monotonic() + GIVE_UP_SECONDS
    while not _count(stage, state="running"):
        if time.monotonic() > deadline:
            raise TimeoutError("the rush does not begin")
        time.sleep(0.02)


def _wait_ended(stage: Stage) -> None:
    deadline = time.monotonic() + 2 * GIVE_UP_SECONDS
    while _count(stage, finished_at=None):
        if time.monotonic() > deadline:
            raise TimeoutError("the rush does not end")
        time.sleep(0.1)


def _claim_ms(stage: Stage, size: Size) -> list[float]:
    """Claims one after another, with a rush queued and no worker."""
    _queue(stage, size.rush, wish())
    taken = []
    for _ in range(size.rush // 5 + 1):
        started = time.perf_counter()
        with operator_scope("benchmark"):
            lease = leases.run_claim(owner="benchmark")
        assert lease is not None
        taken.append((time.perf_counter() - started) * 1000)
    return taken

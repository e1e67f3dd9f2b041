"""Buckets and circuits in a real Valkey: exact for whoever comes at once, and away without harm."""

import asyncio
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.conf import settings as live_settings

from boxoffice.common import limits, valkey
from boxoffice.common.limits import Bucket, Entry, Sight
from boxoffice.common.valkey import Question, ValkeyAway, ask, ask_now
from boxoffice.config.devstack import start_valkey
from boxoffice.config.devstack.process import RunningServer


@pytest.fixture(autouse=True)
def _awake(settings: Any) -> Iterator[None]:
    """Nobody takes a busy machine for a Valkey that is away."""
    settings.VALKEY_PATIENCE_SECONDS = 10.0
    valkey.forget_absence()
    yield
    valkey.forget_absence()


@pytest.fixture
def tag() -> str:
    """Keys that nobody else has."""
    return f"bo:{{{uuid4()}}}"


def slow(key: str, burst: int) -> Bucket:
    """A bucket that gets no token during a test."""
    return Bucket(key=key, per_minute=1, burst=burst)


def enter_now(tag: str, once: str | None = None, **asked: Any) -> Entry:
    return limits.entered(ask_now(limits.enter(once=once or f"{tag}:{uuid4()}", **asked)))


def tell_now(circuit: str, what: str, *, is_probe: bool = False) -> int:
    opened: int = ask_now(limits.tell(circuit=circuit, what=what, is_probe=is_probe))
    return opened


def sight(circuit: str) -> Sight:
    (seen,) = limits.seen(ask_now(limits.look([circuit])))
    return seen


def over(circuit: str) -> None:
    """The circuit's rest is over: its clock is moved, nobody sleeps."""
    redis.Redis.from_url(live_settings.REDIS_URL).hset(circuit, "open", "1")


def test_two_hundred_threads_get_exactly_what_the_bucket_holds(tag: str) -> None:
    bucket = slow(f"{tag}:fan", 37)
    with ThreadPoolExecutor(50) as pool:
        entries = list(pool.map(lambda _: enter_now(tag, buckets=[bucket]), range(200)))
    assert sum(entry.empty is None for entry in entries) == 37
    assert all(entry.wait_s > 0 for entry in entries if entry.empty is not None)


def test_two_hundred_coroutines_get_exactly_what_the_bucket_holds(tag: str) -> None:
    bucket = slow(f"{tag}:fan", 37)

    async def one() -> Entry:
        return limits.entered(await ask(limits.enter(once=f"{tag}:{uuid4()}", buckets=[bucket])))

    async def crowd() -> list[Entry]:
        return list(await asyncio.gather(*(one() for _ in range(200))))

    assert sum(entry.empty is None for entry in asyncio.run(crowd())) == 37


def test_an_empty_bucket_takes_nothing_from_the_other(tag: str) -> None:
    fan, tenant = slow(f"{tag}:fan", 1), slow(f"{tag}:all", 2)
    assert enter_now(tag, buckets=[fan, tenant]).empty is None
    assert [enter_now(tag, buckets=[fan, tenant]).empty for _ in range(3)] == [0, 0, 0]
    other = slow(f"{tag}:other", 5)
    assert enter_now(tag, buckets=[other, tenant]).empty is None
    assert enter_now(tag, buckets=[other, tenant]).empty == 1


def test_the_same_name_is_charged_once(tag: str) -> None:
    bucket = slow(f"{tag}:fan", 1)
    once = f"{tag}:paid:call"
    assert [enter_now(tag, once, buckets=[bucket]).empty for _ in range(3)] == [None] * 3
    assert enter_now(tag, buckets=[bucket]).empty == 0


def test_a_bucket_fills_again_by_the_servers_clock(tag: str) -> None:
    bucket = Bucket(key=f"{tag}:fan", per_minute=6000, burst=1)  # a token each 10 ms
    taken, begun = 0, time.monotonic()
    while taken < 6:
        taken += enter_now(tag, buckets=[bucket]).empty is None
    assert time.monotonic() - begun >= 0.045


def test_five_failures_in_total_open_a_circuit_whoever_has_them(tag: str) -> None:
    circuit = f"{tag}:circuit"
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: tell_now(circuit, "failure"), range(4)))
    assert opened == [0, 0, 0, 0]
    assert not enter_now(tag, circuit=circuit).is_open
    assert tell_now(circuit, "success") == 0  # a party that fails every other time
    assert tell_now(circuit, "failure") == 1
    entry = enter_now(tag, circuit=circuit)
    assert entry.is_open
    assert 25 < entry.wait_s <= 30
    assert sight(circuit).failures == 5


def test_one_probe_and_what_it_says_counts(tag: str) -> None:
    circuit = f"{tag}:circuit"
    for _ in range(5):
        tell_now(circuit, "failure")
    over(circuit)
    with ThreadPoolExecutor(20) as pool:
        entries = list(pool.map(lambda _: enter_now(tag, circuit=circuit), range(50)))
    assert sum(entry.is_probe for entry in entries) == 1
    assert sum(entry.is_open for entry in entries) == 49
    assert tell_now(circuit, "success") == 0  # late word of a call from before: no news
    assert enter_now(tag, circuit=circuit).is_open
    assert tell_now(circuit, "failure", is_probe=True) == 1
    assert enter_now(tag, circuit=circuit).is_open
    over(circuit)
    assert enter_now(tag, circuit=circuit).is_probe
    tell_now(circuit, "success", is_probe=True)
    assert sight(circuit) == Sight(failures=0, open_s=None)
    assert not enter_now(tag, circuit=circuit).is_probe


def test_a_probe_that_was_not_run_leaves_its_place(tag: str) -> None:
    circuit = f"{tag}:circuit"
    for _ in range(5):
        tell_now(circuit, "failure")
    over(circuit)
    assert enter_now(tag, circuit=circuit).is_probe
    tell_now(circuit, "void", is_probe=True)
    assert enter_now(tag, circuit=circuit).is_probe


def test_an_open_circuit_takes_no_token(tag: str) -> None:
    circuit, bucket = f"{tag}:circuit", slow(f"{tag}:fan", 1)
    for _ in range(5):
        tell_now(circuit, "failure")
    assert enter_now(tag, circuit=circuit, buckets=[bucket]).is_open
    assert enter_now(tag, buckets=[bucket]).empty is None


def test_a_server_that_forgot_the_script_is_told_it_again(tag: str) -> None:
    bucket = slow(f"{tag}:fan", 3)
    enter_now(tag, buckets=[bucket])
    redis.Redis.from_url(live_settings.REDIS_URL).script_flush()
    assert enter_now(tag, buckets=[bucket]).empty is None
    redis.Redis.from_url(live_settings.REDIS_URL).script_flush()

    async def later() -> Any:
        return await ask(limits.enter(once=f"{tag}:x", buckets=[bucket]))

    assert limits.entered(asyncio.run(later())).empty is None


@pytest.fixture
def own(tmp_path: Path, settings: Any) -> Iterator[RunningServer]:
    """A Valkey of this test's own."""
    server = start_valkey(tmp_path, durable=False)
    settings.REDIS_URL = server.url
    yield server
    server.stop()


def test_who_asks_a_valkey_that_is_away_is_told_so_at_once(
    own: RunningServer, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = limits.enter(once=f"{tag}:x", buckets=[slow(f"{tag}:fan", 3)])
    assert limits.entered(ask_now(question)).empty is None
    own.stop()
    with pytest.raises(ValkeyAway):
        ask_now(question)
    # From now on nobody even tries, for a while.
    asked: list[Question] = []
    monkeypatch.setattr(valkey, "_client", lambda *about: asked.append(question))
    with pytest.raises(ValkeyAway):
        ask_now(question)
    with pytest.raises(ValkeyAway):
        asyncio.run(ask(question))
    assert asked == []


def test_a_valkey_that_hangs_is_not_waited_for(own: RunningServer, tag: str, settings: Any) -> None:
    question = limits.enter(once=f"{tag}:x", buckets=[slow(f"{tag}:fan", 3)])

    async def both() -> tuple[list[Any], Any]:
        await ask(question)
        own.child.process.send_signal(signal.SIGSTOP)
        settings.VALKEY_PATIENCE_SECONDS = 0.2
        asked = (ask(question) for _ in range(50))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        own.child.process.send_signal(signal.SIGCONT)
        settings.VALKEY_PATIENCE_SECONDS = 10.0
        valkey.forget_absence()
        # What the others did not wait for is not taken for this one's answer.
        return answers, await ask(limits.look([f"{tag}:circuit"]))

    try:
        answers, after = asyncio.run(both())
    finally:
        own.child.process.send_signal(signal.SIGCONT)
    assert all(isinstance(answer, ValkeyAway) for answer in answers)
    assert limits.seen(after) == [Sight(failures=0, open_s=None)]

"""Rates, circuits, tries and stand-ins of calls: by many workers, through the real loop."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import redis
from django.conf import settings as live_settings
from django.db import connection

from agents.models import RunState
from boxoffice.common import valkey
from boxoffice.common.exceptions import NotFound, NotSent, retry_after
from boxoffice.config.devstack import start_valkey
from boxoffice.tenancy.models import Tier
from tests.support.cast import Cast, arena, teatro
from tests.support.dispatching import call_run
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results
from tests.support.worker import Worker, handed_out, model, worker
from tools import circuits, effects, failures, registry
from tools.models import ToolCall
from tools.permissions import Caller
from tools.registry import BadTool
from tools.spec import Rate, Risk, ToolContext, ToolInput, ToolOutput, ToolSpec

__all__ = ["arena", "handed_out", "model", "teatro", "worker"]


class Where(ToolInput):
    """One argument."""

    place: str


class Weather(ToolOutput):
    """One answer."""

    degrees: int


class Party:
    """What the tools speak to: does as it is told, and counts who came."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers: dict[str, Callable[[int], int]] = {}
        self._lock = threading.Lock()

    def ask(self, name: str) -> Weather:
        with self._lock:
            self.asked[name] += 1
            number = self.asked[name]
        return Weather(degrees=self.answers[name](number))


def down(number: int) -> int:
    raise ConnectionError("refused")


def fine(number: int) -> int:
    return 20


def failing(times: int, how: Callable[[int], int] = down) -> Callable[[int], int]:
    return lambda number: how(number) if number <= times else 20


def wrong(result: Weather, arguments: Where) -> str:
    return "colder than anything" if result.degrees < -273 else ""


@pytest.fixture
def machines(arena: Cast, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Party]:
    """Tools that speak to one party, granted to the tier pro; nobody pauses between tries."""
    live = Party()
    settings.VALKEY_PATIENCE_SECONDS = 10.0
    valkey.forget_absence()
    monkeypatch.setattr(failures, "FIRST_PAUSE_SECONDS", 0.0)

    def add(name: str, **changes: Any) -> None:
        def run(context: ToolContext, arguments: Where) -> Weather:
            return live.ask(name)

        spec = ToolSpec(
            name=name,
            description="One. Two. Three.",
            input_model=Where,
            output_model=Weather,
            run=run,
            risk=Risk.READ,
            check=wrong,
        )
        live.answers[name] = fine
        monkeypatch.setitem(registry._tools, name, replace(spec, **changes))

    add("weather")
    add("station", fallback="weather")
    add("rare", rate=Rate(per_minute=3, tenant_per_minute=5))
    add("writes", risk=Risk.WRITE_REVERSIBLE)
    with arena.scope():
        Tier.objects.filter(slug="pro").update(tools=list(live.answers))
    yield live


@pytest.fixture
def party(arena: Cast, machines: Party) -> Iterator[Party]:
    """The same, with the tenant's scope open."""
    with arena.scope():
        yield machines


def caller_of(arena: Cast, name: str = "ana") -> Caller:
    return Caller(
        tenant_id=arena.tenant.pk,
        user_id=arena.user(name).pk,
        time_zone="America/Sao_Paulo",
        language="pt-br",
    )


def propose(caller: Caller, tool: str, arguments: Any = None) -> ToolCall:
    (call,) = effects.calls_propose(
        caller=caller,
        proposals=[effects.Proposal(call_id="c", tool=tool, arguments=arguments or {"place": "x"})],
        origin="test",
        run_id=uuid4(),
        conversation_id=uuid4(),
        key_prefix=str(uuid4()),
    )
    return call


def run(caller: Caller, call: ToolCall) -> ToolCall:
    return call_run(call_id=call.pk, caller=caller).call


def over(arena: Cast, tool: str) -> None:
    """The rest of the tool's circuit is over: the clock is moved, nobody sleeps."""
    key = circuits.key_of(arena.tenant.pk, tool)
    redis.Redis.from_url(live_settings.REDIS_URL).hset(key, "open", "1")


def all_at_once(arena: Cast, tool: str, count: int, threads: int = 10) -> list[ToolCall]:
    """So many calls, by ten workers that know nothing of each other."""
    caller = caller_of(arena)
    calls = [propose(caller, tool) for _ in range(count)]

    def one(call: ToolCall) -> ToolCall:
        try:
            with arena.scope():
                return run(caller, call)
        finally:
            connection.close()

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, calls))


def test_a_read_that_fails_is_tried_three_times_at_most(arena: Cast, party: Party) -> None:
    party.answers["weather"] = failing(2)
    caller = caller_of(arena)
    call = run(caller, propose(caller, "weather"))
    assert (call.state, call.attempts, call.result) == ("succeeded", 3, {"degrees": 20})
    party.answers["weather"] = failing(99)
    party.asked.clear()
    call = run(caller, propose(caller, "weather"))
    # The circuit has counted all five failures, and opened before the last try.
    assert (call.state, party.asked["weather"]) in (("failed", 3), ("denied", 3))


def test_ten_workers_and_a_flapping_tool_five_failures_in_total_and_one_probe(
    arena: Cast, party: Party
) -> None:
    gate = threading.Barrier(5, timeout=20)

    def flaps(number: int) -> int:
        if number % 2:
            return 20
        if number <= 10:
            gate.wait()  # so that the five failures are five workers'
        return down(number)

    party.answers["writes"] = flaps  # a write, so that nobody tries again by itself
    all_at_once(arena, "writes", 10)
    assert party.asked["writes"] == 10  # five answers, five failures
    refused = all_at_once(arena, "writes", 50)
    assert party.asked["writes"] == 10
    assert {call.error["code"] for call in refused} == {"circuit_open"}
    assert {call.state for call in refused} == {"denied"}
    assert all(0 < call.error["retry_after_s"] <= 30 for call in refused)

    over(arena, "writes")
    party.answers["writes"] = down
    all_at_once(arena, "writes", 30)
    assert party.asked["writes"] == 11  # the probe, which failed
    over(arena, "writes")
    party.answers["writes"] = fine
    probing = all_at_once(arena, "writes", 1)
    assert probing[0].state == "succeeded"
    assert {call.state for call in all_at_once(arena, "writes", 10)} == {"succeeded"}


def test_many_runs_make_no_storm_of_tries(arena: Cast, party: Party) -> None:
    party.answers["weather"] = down
    calls = all_at_once(arena, "weather", 100)
    # Three tries for each would be 300: those on their way when it opened, and no more.
    assert 5 <= party.asked["weather"] <= 5 + 9
    assert all(call.attempts <= 3 for call in calls)


@pytest.mark.parametrize(
    "error", [NotFound("none"), KeyError("a mistake")], ids=["refusal", "mistake"]
)
def test_what_another_try_does_not_mend_is_not_tried_again(
    arena: Cast, party: Party, error: Exception
) -> None:
    def raises(number: int) -> int:
        raise error

    party.answers["weather"] = raises
    caller = caller_of(arena)
    for _ in range(6):
        run(caller, propose(caller, "weather"))
    is_mistake = isinstance(error, KeyError)
    # A refusal says nothing of the party; a mistake in the tool does.
    assert party.asked["weather"] == (5 if is_mistake else 6)


def test_a_write_is_not_repeated(arena: Cast, party: Party) -> None:
    party.answers["writes"] = failing(1)
    caller = caller_of(arena)
    call = run(caller, propose(caller, "writes"))
    assert (call.state, call.attempts, party.asked["writes"]) == ("failed", 1, 1)
    assert call.error["retryable"] is True


def test_a_party_that_wants_to_be_left_alone_is_not_waited_for(arena: Cast, party: Party) -> None:
    def busy(number: int) -> int:
        raise NotSent("429", retry_after=40)

    party.answers["weather"] = busy
    caller = caller_of(arena)
    call = run(caller, propose(caller, "weather"))
    assert (call.attempts, call.error["retry_after_s"]) == (1, 40)
    assert "40 seconds" in call.error["hint"]


def test_pauses_double_have_jitter_and_obey_retry_after() -> None:
    first = [failures.pause_before(2) or 0 for _ in range(50)]
    second = [failures.pause_before(3) or 0 for _ in range(50)]
    assert all(1 <= pause <= 1.25 for pause in first)
    assert all(2 <= pause <= 2.5 for pause in second)
    assert len({round(pause, 6) for pause in first}) > 10
    assert 4 <= (failures.pause_before(2, 4.0) or 0) <= 4.25
    assert failures.pause_before(2, 6.0) is None
    assert failures.pause_before(4) is None
    assert retry_after("7") == 7.0
    assert retry_after("Mon, 30 Nov 2020 10:00:00 GMT") == 0.0
    assert retry_after("soon") is None


def test_the_tries_of_a_dead_worker_count(arena: Cast, party: Party) -> None:
    party.answers["weather"] = down
    caller = caller_of(arena)
    call = propose(caller, "weather")
    ToolCall.objects.filter(pk=call.pk).update(attempts=2)  # it died in its second pause
    call = run(caller, call)
    assert (call.state, call.attempts, party.asked["weather"]) == ("failed", 3, 1)


def test_another_tool_stands_in_and_the_answer_says_so(arena: Cast, party: Party) -> None:
    party.answers["station"] = down
    caller = caller_of(arena)
    for expected in ("failed", "denied"):
        call = run(caller, propose(caller, "station"))
        assert call.state == expected
        shown = effects.outcome_data(call)
        assert (shown["degrees"], shown["degraded"], shown["source"]) == (20, True, "weather")
        assert "weather" in shown["because"]["say"]
        second = ToolCall.objects.get(origin=f"fallback:{call.pk}")
        assert (second.tool, second.state, second.attempts) == ("weather", "succeeded", 1)
        assert second.run_ref == call.run_ref
        for _ in range(3):  # until its circuit is open
            run(caller, propose(caller, "station"))


def test_who_may_not_use_the_stand_in_gets_the_error(arena: Cast, party: Party) -> None:
    party.answers["station"] = down
    Tier.objects.filter(slug="pro").update(tools=["station"])
    caller = caller_of(arena)
    call = run(caller, propose(caller, "station"))
    assert "error" in effects.outcome_data(call)
    assert ToolCall.objects.get(origin=f"fallback:{call.pk}").state == "denied"


def test_a_stand_in_must_fit(party: Party, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.verify()
    spec = registry._tools["station"]
    for bad in ("nobody", "station", "writes", "search_events"):
        monkeypatch.setitem(registry._tools, "station", replace(spec, fallback=bad))
        with pytest.raises(BadTool):
            registry.verify()


def test_a_valid_but_wrong_result_is_an_error(arena: Cast, party: Party) -> None:
    party.answers["weather"] = lambda number: -300
    caller = caller_of(arena)
    call = run(caller, propose(caller, "weather"))
    assert (call.state, call.error["code"], call.result) == ("failed", "invalid_result", None)
    assert party.asked["weather"] == 1


def test_a_tools_rate_holds_for_a_fan_and_for_all(arena: Cast, party: Party) -> None:
    def codes(name: str, count: int) -> list[str]:
        caller = caller_of(arena, name)
        calls = [run(caller, propose(caller, "rare")) for _ in range(count)]
        return ["ok" if call.error is None else call.error["code"] for call in calls]

    assert codes("ana", 4) == ["ok", "ok", "ok", "rate_limited"]
    assert codes("rita", 3) == ["ok", "ok", "rate_limited"]
    denied = ToolCall.objects.filter(tool="rare", state="denied")
    assert {(call.verdict, call.reason_code) for call in denied} == {("deny", "rate_limited")}
    assert all(call.error["retryable"] and call.error["retry_after_s"] > 0 for call in denied)


def test_a_call_is_charged_once_however_often_it_is_begun(arena: Cast, party: Party) -> None:
    caller = caller_of(arena)
    call = propose(caller, "rare")

    def dies() -> None:
        raise RuntimeError("the worker is gone")

    for _ in range(9):
        with pytest.raises(RuntimeError):
            call_run(call_id=call.pk, caller=caller, fence=dies)
    assert run(caller, call).state == "succeeded"
    assert [run(caller, propose(caller, "rare")).state for _ in range(3)] == [
        "succeeded",
        "succeeded",
        "denied",
    ]


def test_a_call_that_is_refused_anyway_takes_nobodys_turn(arena: Cast, party: Party) -> None:
    caller = caller_of(arena)
    Tier.objects.filter(slug="pro").update(tools=["weather"])
    for _ in range(5):
        assert run(caller, propose(caller, "rare")).error["code"] == "not_granted"
    Tier.objects.filter(slug="pro").update(tools=["rare"])
    assert run(caller, propose(caller, "rare")).state == "succeeded"


def test_a_tier_with_a_circuit_of_its_own_is_not_closed_out(arena: Cast, party: Party) -> None:
    own = Tier.objects.create(
        slug="own", name="own", model_alias="m", tools=["writes"], dedicated_circuit=True
    )
    arena.user("rita").memberships.update(tier=own)
    party.answers["writes"] = down
    for name in ["ana"] * 6:
        run(caller_of(arena, name), propose(caller_of(arena, name), "writes"))
    assert party.asked["writes"] == 5
    party.answers["writes"] = fine
    rita, ana = caller_of(arena, "rita"), caller_of(arena, "ana")
    assert run(rita, propose(rita, "writes")).state == "succeeded"
    assert run(ana, propose(ana, "writes")).error["code"] == "circuit_open"


def test_tenants_have_circuits_of_their_own(arena: Cast, teatro: Cast, machines: Party) -> None:
    machines.answers["writes"] = down
    with arena.scope():
        ana = caller_of(arena)
        assert [run(ana, propose(ana, "writes")).state for _ in range(6)][-1] == "denied"
    machines.answers["writes"] = fine
    with teatro.scope():
        Tier.objects.filter(slug="pro").update(tools=["writes"])
        teo = caller_of(teatro, "teo")
        assert run(teo, propose(teo, "writes")).state == "succeeded"


@pytest.mark.parametrize(
    ("tool", "held", "code"),
    [
        ("writes", {}, None),
        ("rare", {}, None),
        ("rare", {"read": "closed"}, "limits_unavailable"),
        ("weather", {"circuit": "closed"}, "limits_unavailable"),
    ],
)
def test_valkey_stops_in_the_middle(
    arena: Cast,
    party: Party,
    settings: Any,
    tmp_path: Path,
    tool: str,
    held: dict[str, str],
    code: str | None,
) -> None:
    server = start_valkey(tmp_path, durable=False)
    settings.REDIS_URL = server.url
    settings.WITHOUT_VALKEY = settings.WITHOUT_VALKEY | held
    caller = caller_of(arena)
    assert run(caller, propose(caller, tool)).state == "succeeded"
    server.stop()
    calls = [run(caller, propose(caller, tool)) for _ in range(8)]
    assert {call.error and call.error["code"] for call in calls} == {code}


# Through the loop of a worker, with a model.


def asks(worker: Worker, model: ScriptedModel, arena: Cast, *tools: str) -> tuple[Any, list[str]]:
    """A run whose model asks for these tools at once; what it is told."""
    model.reset()
    model.script([Reply.tools(*((tool, {"place": "x"}) for tool in tools)), Reply.text("Certo.")])
    begun = arena.post("ana", "que tempo faz?")
    worker.work(begun)
    run = arena.run(begun.pk)
    return run, [block["content"] for block in last_tool_results(model.requests[-1])]


def test_a_run_tries_again_and_goes_on(
    arena: Cast, machines: Party, worker: Worker, model: ScriptedModel
) -> None:
    machines.answers["weather"] = failing(2)
    run, told = asks(worker, model, arena, "weather")
    assert run.state == RunState.SUCCEEDED
    assert "20" in told[0]
    (call,) = arena.calls(run.pk)
    assert (call.state, call.attempts) == ("succeeded", 3)
    assert arena.kinds(run.pk) == ["input", "model", "results", "model", "final"]


def test_a_run_with_several_calls_keeps_their_order_over_tries(
    arena: Cast, machines: Party, worker: Worker, model: ScriptedModel
) -> None:
    machines.answers["weather"] = failing(1)
    run, told = asks(worker, model, arena, "weather", "rare", "writes")
    assert run.state == RunState.SUCCEEDED
    assert ["weather" in told[0], "rare" in told[1], "writes" in told[2]] == [True] * 3
    assert [call.attempts for call in arena.calls(run.pk)] == [2, 1, 1]


def test_the_model_is_told_of_an_open_circuit(
    arena: Cast, machines: Party, worker: Worker, model: ScriptedModel
) -> None:
    machines.answers["writes"] = down
    for _ in range(5):
        asks(worker, model, arena, "writes")
    run, told = asks(worker, model, arena, "writes")
    assert run.state == RunState.SUCCEEDED
    assert "circuit_open" in told[0]
    assert "seconds" in told[0]
    assert machines.asked["writes"] == 5

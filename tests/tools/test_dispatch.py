"""Dispatch by itself: once, fenced, and whatever a tool does, an answer."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from agents.leases import LeaseLost
from boxoffice.tenancy.models import Tier
from tests.support.cast import Cast, arena
from tests.support.dispatching import call_run
from tools import effects, registry
from tools.models import ToolCall
from tools.permissions import Caller
from tools.spec import Risk, ToolContext, ToolInput, ToolOutput, ToolSpec

__all__ = ["arena"]


class Nothing(ToolInput):
    """No arguments."""


class Done(ToolOutput):
    """How often."""

    count: int


RUNS: list[str] = []


def counts(context: ToolContext, arguments: Nothing) -> Done:
    RUNS.append(context.idempotency_key)
    return Done(count=len(RUNS))


def stumbles(context: ToolContext, arguments: Nothing) -> Done:
    raise KeyError("a mistake in the tool")


def sleeps(context: ToolContext, arguments: Nothing) -> Done:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(30)")
    return Done(count=0)


def lies(context: ToolContext, arguments: Nothing) -> Done:
    return Done.model_validate({"count": "many"})


@pytest.fixture
def tools(arena: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A few tools that misbehave, granted to everybody."""
    RUNS.clear()
    for run in (counts, stumbles, sleeps, lies):
        spec = ToolSpec(
            name=run.__name__,
            description="One. Two. Three.",
            input_model=Nothing,
            output_model=Done,
            run=run,
            risk=Risk.WRITE_REVERSIBLE,
            timeout_s=0.2,
        )
        monkeypatch.setitem(registry._tools, spec.name, spec)
    with arena.scope():
        Tier.objects.filter(slug="pro").update(tools=["counts", "stumbles", "sleeps", "lies"])
        yield


def propose(arena: Cast, tool: str, arguments: Any = None) -> tuple[Caller, ToolCall]:
    caller = Caller(
        tenant_id=arena.tenant.pk,
        user_id=arena.user("ana").pk,
        time_zone="America/Sao_Paulo",
        language="pt-br",
    )
    (call,) = effects.calls_propose(
        caller=caller,
        proposals=[effects.Proposal(call_id="c", tool=tool, arguments=arguments or {})],
        origin="test",
        run_id=uuid4(),
        conversation_id=uuid4(),
        key_prefix=str(uuid4()),
    )
    return caller, call


def run(caller: Caller, call_id: UUID) -> ToolCall:
    return call_run(call_id=call_id, caller=caller).call


def test_a_call_that_is_over_is_not_run_again(arena: Cast, tools: None) -> None:
    caller, call = propose(arena, "counts")
    first, second = run(caller, call.pk), run(caller, call.pk)
    assert [call.idempotency_key] == RUNS
    assert first.result == second.result == {"count": 1}


def test_a_lost_lease_leaves_no_effect_and_the_call_open(arena: Cast, tools: None) -> None:
    caller, call = propose(arena, "counts")

    def lost() -> None:
        raise LeaseLost("x")

    with pytest.raises(LeaseLost):
        call_run(call_id=call.pk, caller=caller, fence=lost)
    assert RUNS == []
    assert ToolCall.objects.get(pk=call.pk).state == "proposed"


@pytest.mark.parametrize(
    ("tool", "code"),
    [("stumbles", "tool_failed"), ("sleeps", "timeout"), ("lies", "invalid_result")],
)
def test_a_tool_that_misbehaves_is_an_error_of_its_call(
    arena: Cast, tools: None, tool: str, code: str
) -> None:
    caller, call = propose(arena, tool)
    over = run(caller, call.pk)
    assert over.state == "failed"
    assert over.error["code"] == code
    assert "KeyError" not in str(over.error)


def test_what_is_no_longer_granted_is_denied_at_dispatch(arena: Cast, tools: None) -> None:
    caller, call = propose(arena, "counts")
    Tier.objects.filter(slug="pro").update(tools=[])
    over = run(caller, call.pk)
    assert (over.state, over.verdict) == ("denied", "deny")
    assert RUNS == []


def test_a_key_is_taken_once(arena: Cast, tools: None) -> None:
    caller, call = propose(arena, "counts")
    twin = ToolCall(
        tenant_id=call.tenant_id,
        call_id="c",
        origin="test",
        user_id=caller.user_id,
        tool="counts",
        arguments={},
        args_hash="",
        idempotency_key=call.idempotency_key,
    )
    with pytest.raises(Exception, match="toolcall_idempotency_key_once"):
        twin.save()

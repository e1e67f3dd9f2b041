"""Runs over REST: where they are, what they did, and stopping them."""

from uuid import UUID, uuid4

from agents.models import RUN_MACHINE, Run, RunState, Step
from approvals.models import ApprovalRequest
from approvals.services import request_create
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from tests.agents.api.conftest import Caller, assert_problem
from tests.support.cast import Cast
from tools.models import CALL_MACHINE, CallState, Effect, ToolCall


def a_call(cast: Cast, run_id: str, *, tool: str = "place_order") -> ToolCall:
    """A proposed call of a run; the test is in the tenant's scope."""
    return ToolCall.objects.create(  # type: ignore[no-any-return]
        call_id="toolu_1",
        origin=f"run:{run_id}",
        run_ref=UUID(run_id),
        tool=tool,
        arguments={"hold_id": "h"},
        args_hash="0" * 64,
        idempotency_key=str(uuid4()),
    )


def test_a_run_says_where_it_is(ana: Caller) -> None:
    posted = ana.say("oi")
    row = ana.get(f"runs/{posted['run']}/").json()
    assert row == {
        "id": posted["run"],
        "conversation": posted["conversation"],
        "state": "queued",
        "answer": None,
        "waiting_for": None,
        "usage": {"input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0},
        "steps": 0,
        "error": None,
        "model": "claude-sonnet-4-7",
        "created_at": row["created_at"],
        "finished_at": None,
    }


def test_a_waiting_run_says_for_whom(arena: Cast, ana: Caller) -> None:
    run_id = ana.say("compre")["run"]
    with arena.scope():
        done = a_call(arena, run_id, tool="search_seats")
        gated = a_call(arena, run_id)
        request = pending(arena, gated)
        transition(
            ToolCall.objects.filter(pk=gated.pk), CALL_MACHINE, CallState.GATED, approval=request
        )
        transition(ToolCall.objects.filter(pk=done.pk), CALL_MACHINE, CallState.DENIED)
        runs = Run.objects.filter(pk=run_id)
        transition(runs, RUN_MACHINE, RunState.RUNNING, lease_until=now())
        transition(runs, RUN_MACHINE, RunState.WAITING, cost_micros=1_500)
    row = ana.get(f"runs/{run_id}/").json()
    assert row["state"] == "waiting"
    assert row["waiting_for"] == [
        {"approval": str(request.pk), "gate": "fan", "tool": "place_order"}
    ]
    assert row["usage"]["cost_usd"] == 0.0015


def pending(arena: Cast, call: ToolCall) -> ApprovalRequest:
    return request_create(
        action=call.tool,
        arguments=call.arguments,
        gate="fan",
        requested_for_id=arena.user("ana").pk,
        reason="",
        preview=None,
        binding_hash="0" * 64,
        reference={"call": str(call.pk), "run": str(call.run_ref)},
        risk="destructive",
        rule="tool",
    )


def test_the_tool_calls_of_a_run_are_rows_of_the_contract(arena: Cast, ana: Caller) -> None:
    run_id = ana.say("compre")["run"]
    with arena.scope():
        call = a_call(arena, run_id)
        rows = ToolCall.objects.filter(pk=call.pk)
        error = {"code": "not_found", "message": "…", "retryable": False, "hint": ""}
        transition(rows, CALL_MACHINE, CallState.DENIED, verdict=Effect.DENY, error=error)
    results = ana.get(f"runs/{run_id}/tool-calls/").json()["results"]
    assert results == [
        {
            "id": str(call.pk),
            "tool": "place_order",
            "arguments": {"hold_id": "h"},
            "verdict": "deny",
            "state": "denied",
            "result": None,
            "error": error,
            "attempts": 0,
            "latency_ms": None,
        }
    ]


def test_the_steps_of_a_run_come_in_order(arena: Cast, ana: Caller) -> None:
    posted = ana.say("oi")
    with arena.scope():
        Step.objects.create(run_id=posted["run"], seq=2, epoch=0, kind="results", content={})
    first, second = ana.get(f"runs/{posted['run']}/steps/").json()["results"]
    assert (first["seq"], first["kind"]) == (1, "input")
    assert first["content"]["messages"] == [{"id": posted["message"], "text": "oi"}]
    assert (second["seq"], second["kind"], second["cost_usd"]) == (2, "results", 0.0)


def test_a_queued_run_is_cancelled_at_once_and_only_once(ana: Caller) -> None:
    run_id = ana.say("oi")["run"]
    stopped = ana.post(f"runs/{run_id}/cancel/")
    assert stopped.status_code == 202
    assert stopped.json()["state"] == "cancelled"
    assert stopped.json()["finished_at"] is not None
    assert ana.post(f"runs/{run_id}/cancel/").json()["state"] == "cancelled"
    assert [row["kind"] for row in ana.get(f"runs/{run_id}/steps/").json()["results"]] == [
        "input",
        "final",
    ]


def test_a_run_that_is_over_cannot_be_cancelled(arena: Cast, ana: Caller) -> None:
    run_id = ana.say("oi")["run"]
    with arena.scope():
        runs = Run.objects.filter(pk=run_id)
        transition(runs, RUN_MACHINE, RunState.RUNNING, lease_until=now())
        transition(runs, RUN_MACHINE, RunState.SUCCEEDED, finished_at=now())
    assert_problem(ana.post(f"runs/{run_id}/cancel/"), 409)


def test_a_reviewer_reads_a_fans_run_and_does_not_stop_it(ana: Caller, rita: Caller) -> None:
    run_id = ana.say("oi")["run"]
    assert rita.get(f"runs/{run_id}/").json()["id"] == run_id
    assert_problem(rita.post(f"runs/{run_id}/cancel/"), 403)
    assert ana.get(f"runs/{run_id}/").json()["state"] == "queued"


def test_an_unknown_run_is_not_found(ana: Caller) -> None:
    for path in ("", "steps/", "tool-calls/", "events/"):
        assert_problem(ana.get(f"runs/{uuid4()}/{path}"), 404)
    assert_problem(ana.post(f"runs/{uuid4()}/cancel/"), 404)
    assert_problem(ana.post(f"runs/{ana.say('oi')['run']}/cancel/", {"force": True}), 422, "force")

"""Walking through a run without a model: what was sent, what was said, what is said today."""

import json
from typing import Any
from uuid import UUID

import pytest
from django.db import DatabaseError, connection
from django.test.utils import CaptureQueriesContext

from agents import services
from agents.models import RUN_MACHINE, Message, Run, RunState, Speaker, Step, StepKind
from agents.replay import dry
from agents.replay.errors import RunNotOver
from boxoffice.common.clock import now
from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Membership, Tenant, Tier
from boxoffice.tenancy.readonly import reads_only
from boxoffice.ticketing.models import Hold, Order
from tests.agents.replay.conftest import (
    another_version,
    buys,
    codes,
    decide,
    holds_seats,
    walk,
    without_tool,
)
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, searches
from tests.support.worker import Worker
from tests.ticketing.buying import order_place
from tools.models import ToolCall


def requests_of(report: dry.Report) -> list[JsonObject]:
    """The requests of a report, put together as they go over the wire."""
    told: list[JsonObject] = []
    sent = []
    for step in report.steps:
        if step.request is None:
            continue
        request = step.request
        if request.after_blocks == 0:
            told = []
        for message in json.loads(json.dumps(request.messages)):
            if told and told[-1]["role"] == message["role"]:
                told[-1]["content"] += message["content"]
            else:
                told.append(message)
        prompt = report.prompts[request.prompt]
        tools = [tool["offer"] for tool in prompt["tools"]]
        sent.append(
            {
                "model": prompt["model"],
                "system": prompt["system"] + request.rest,
                "max_tokens": request.max_tokens,
                "messages": json.loads(json.dumps(told)),
                **({"tools": tools} if tools else {}),
            }
        )
    return sent


def wire(model: ScriptedModel) -> list[dict[str, Any]]:
    """What the model was sent, without what is only the transport's."""
    keys = ("model", "system", "max_tokens", "messages", "tools")
    return [{key: asked[key] for key in keys if key in asked} for asked in model.requests]


def everything(arena: Cast) -> tuple[Any, ...]:
    with arena.scope():
        return (
            arena.counts(),
            list(Run.objects.order_by("pk").values()),
            list(Step.objects.order_by("pk").values("pk", "content")),
            list(ToolCall.objects.order_by("pk").values()),
            list(Message.objects.order_by("pk").values()),
        )


def test_requests_are_built_again_as_they_were_sent(
    arena: Cast, model: ScriptedModel, searched: Run
) -> None:
    report = walk(arena, searched)
    assert requests_of(report) == wire(model)
    assert [step.kind for step in report.steps] == [
        *("input", "model", "results", "model", "results", "model", "final")
    ]
    assert all(step.request.is_exact for step in report.steps if step.request)
    assert report.changes == ()
    assert (report.from_step, report.last_step, report.next_step) == (1, 7, None)


def test_a_walk_can_begin_at_every_step(arena: Cast, model: ScriptedModel, searched: Run) -> None:
    for seq in range(1, 8):
        report = walk(arena, searched, seq)
        assert [step.seq for step in report.steps] == list(range(seq, 8))
        asked = [step for step in report.steps if step.request]
        assert requests_of(report) == (wire(model)[-len(asked) :] if asked else [])
        if asked:
            assert asked[0].request is not None
            assert asked[0].request.after_blocks == 0


def test_turns_calls_and_results_are_the_recorded_ones(arena: Cast, searched: Run) -> None:
    steps = {step.seq: step for step in walk(arena, searched).steps}
    assert [said["text"] for said in steps[1].said] == ["dois lugares"]
    assert steps[2].turn is not None
    assert steps[2].turn["blocks"][0] == {"type": "text", "text": "Vou ver."}
    (search,) = steps[2].calls
    assert (search.tool, search.arguments) == ("search_events", {"query": "Show"})
    assert search.recorded == search.today
    assert search.recorded.effect == "allow"
    assert [block["type"] for block in steps[5].results] == ["tool_result"] * 2
    assert steps[7].end is not None
    assert steps[7].end["answer"] == "Achei dois lugares."


def test_a_walk_writes_nothing_and_does_nothing(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    run = buys(arena, worker, model, hold, "approve")
    assert run.state == RunState.SUCCEEDED
    before, asked = everything(arena), len(model.requests)
    with CaptureQueriesContext(connection) as queries:
        walk(arena, run)
    assert everything(arena) == before
    assert len(model.requests) == asked
    sent = " ".join(query["sql"].upper() for query in queries)
    assert not any(word in sent for word in ("INSERT ", "UPDATE ", "DELETE "))


@pytest.mark.parametrize(
    "text", ["UPDATE agents_run SET model = 'x'", "SELECT 1 FROM agents_run FOR UPDATE"]
)
def test_the_database_refuses_to_write_in_it(arena: Cast, text: str) -> None:
    arena.post("ana", "oi")
    with arena.scope():
        with (
            pytest.raises(DatabaseError, match="read-only transaction"),
            reads_only(),
            connection.cursor() as cursor,
        ):
            cursor.execute(text)
        Run.objects.update(model="again")  # afterwards it may be written


def test_a_guard_that_wrote_would_be_stopped(
    arena: Cast, searched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def writes(call: ToolCall, today: Any) -> Any:
        Run.objects.filter(pk=searched.pk).update(model="x")

    monkeypatch.setattr(dry, "verdict_today", writes)
    with pytest.raises(DatabaseError, match="read-only transaction"):
        walk(arena, searched)
    assert arena.run(searched.pk).model != "x"


def test_a_tool_that_is_gone_is_said_to_be(arena: Cast, searched: Run) -> None:
    with without_tool("search_seats"):
        report = walk(arena, searched)
    by_seq = {step.seq: step for step in report.steps}
    assert codes(by_seq[2].changes) == {"tool_gone"}  # it was offered there
    assert codes(by_seq[4].changes) >= {"tool_gone", "verdict_changed"}
    seats = by_seq[4].calls[0]
    assert (seats.today.effect, seats.today.code) == ("deny", "unknown_tool")
    assert seats.today.tool_version == ""
    assert seats.recorded.tool_version != ""
    assert "search_seats" in next(c.message for c in seats.changes if c.code == "tool_gone")
    assert requests_of(report)  # what was sent is known all the same


def test_a_tool_of_another_version_is_said_to_be(arena: Cast, searched: Run) -> None:
    with another_version("search_seats"):
        report = walk(arena, searched)
    seats = {step.seq: step for step in report.steps}[4].calls[0]
    assert codes(seats.changes) == {"tool_changed"}
    assert seats.recorded.tool_version in seats.changes[0].message


def test_a_prompt_that_has_changed_is_said_to_be(arena: Cast, searched: Run) -> None:
    Tenant.objects.filter(pk=arena.tenant.pk).update(name="Arena Nova")
    report = walk(arena, searched)
    assert codes(report.changes) == {"prompt_changed"}
    assert "Arena Nova" not in json.dumps(report.prompts)


def test_a_model_that_nobody_uses_any_more_is_said_to_be_gone(arena: Cast, searched: Run) -> None:
    with arena.scope():
        Tier.objects.filter(model_alias=searched.model).update(model_alias="claude-next")
    report = walk(arena, searched)
    assert codes(report.changes) == {"model_gone"}


def test_a_step_from_before_prompts_were_kept_says_so(arena: Cast) -> None:
    with arena.scope():
        old = old_run(arena)
    report = walk(arena, old)
    (asked,) = [step.request for step in report.steps if step.request]
    assert (asked.prompt, asked.max_tokens, asked.is_exact) == ("", None, None)
    assert "prompt_unknown" in codes(report.changes)
    assert report.prompts == {}


def old_run(arena: Cast) -> Run:
    """A run as the release before has written it; the tenant's scope is open."""
    run = arena.post("ana", "oi")
    content = {"blocks": [{"type": "text", "text": "Olá."}], "stop_reason": "end_turn", "calls": []}
    Step.objects.create(run=run, seq=2, epoch=0, kind=StepKind.MODEL, content=content)
    end = {"state": "succeeded", "answer": "Olá."}
    Step.objects.create(run=run, seq=3, epoch=0, kind=StepKind.FINAL, content=end)
    Message.objects.create(
        conversation=run.conversation, run=run, speaker=Speaker.ASSISTANT, text="Olá."
    )
    over(run)
    return run


def over(run: Run) -> None:
    rows = Run.objects.filter(pk=run.pk)
    transition(rows, RUN_MACHINE, RunState.RUNNING, lease_until=now())
    transition(rows, RUN_MACHINE, RunState.SUCCEEDED, last_seq=3)


def test_a_fan_who_moved_to_another_tier_would_be_judged_otherwise(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = holds_seats(arena, worker, model)
    with arena.scope():
        Tier.objects.filter(slug="free").update(tools=["search_events"])
        free = Tier.objects.get(slug="free")
        Membership.objects.filter(user=arena.user("ana")).update(tier=free)
    report = walk(arena, run)
    assert (report.tier_then, report.tier_today) == ("pro", "free")
    (call,) = {step.seq: step for step in report.steps}[2].calls
    assert (call.recorded.effect, call.today.effect) == ("allow", "deny")
    assert codes(call.changes) == {"verdict_changed", "grant_lost", "tier_changed"}


def test_a_fan_who_left_may_do_nothing_today(arena: Cast, searched: Run) -> None:
    with arena.scope():
        Membership.objects.filter(user=arena.user("ana")).update(is_active=False)
    report = walk(arena, searched)
    assert report.tier_today == ""
    assert {call.today.effect for step in report.steps for call in step.calls} == {"deny"}


@pytest.mark.parametrize(("verb", "state"), [("approve", "executed"), ("deny", "denied")])
def test_a_run_with_a_decision_shows_it(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold, verb: str, state: str
) -> None:
    run = buys(arena, worker, model, hold, verb)
    report = walk(arena, run)
    (call,) = [call for step in report.steps for call in step.calls]
    assert call.approval is not None
    assert (call.approval["gate"], call.approval["state"]) == ("fan", state)
    assert call.recorded.effect == call.today.effect == "confirm"
    assert call.changes == ()
    assert ("error" in call.outcome) == (verb == "deny")
    assert requests_of(report) == wire(model)


def test_an_edited_call_is_judged_by_what_was_run(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    with arena.scope():
        order: Order = order_place(hold_id=hold.pk, user_id=arena.user("ana").pk, payment_key="k")
    arguments = {"order_id": str(order.pk), "reason": "não posso ir"}
    model.script([Reply.tools(("refund_order", arguments)), Reply.text("Certo.")])
    run = arena.post("ana", "reembolso")
    worker.work(run)
    edited = arguments | {"reason": "doença"}
    decide(arena, run.pk, "rita", "approve", arguments=edited)
    worker.work(run)
    report = walk(arena, run)
    (call,) = [call for step in report.steps for call in step.calls]
    assert call.arguments == arguments
    assert call.edited_arguments == edited
    assert call.approval is not None
    assert call.approval["edited"]
    assert call.outcome["decision"]["arguments_changed_to"] == edited
    assert requests_of(report) == wire(model)


def test_broken_arguments_are_shown_as_broken(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.raw_tool("search_events", '{"query": '), Reply.text("Perdão.")])
    run = arena.post("ana", "oi")
    worker.work(run)
    report = walk(arena, run)
    (call,) = [call for step in report.steps for call in step.calls]
    assert call.arguments == {"_unreadable": "invalid_json"}
    assert call.recorded.code == call.today.code == "invalid_arguments"
    assert call.changes == ()
    assert requests_of(report) == wire(model)


def test_a_tool_that_never_was_is_no_change(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.tools(("launch_rocket", {})), Reply.text("Não dá.")])
    run = arena.post("ana", "oi")
    worker.work(run)
    assert walk(arena, run).changes == ()


def test_a_partial_run_ends_with_its_reason(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=2)
    model.script([Reply.tools(("search_events", {})), Reply.tools(("search_events", {}))])
    run = arena.post("ana", "oi")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.PARTIAL
    end = walk(arena, run).steps[-1].end
    assert end is not None
    assert end["handoff"] == "budget_steps"


def test_a_last_step_without_tools_is_built_again_as_text(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=2)
    model.script([Reply.tools(("search_events", {})), Reply.text("É isso.")])
    run = arena.post("ana", "oi")
    worker.work(run)
    report = walk(arena, run)
    assert requests_of(report) == wire(model)
    flat = [step.request.is_flattened for step in report.steps if step.request]
    assert flat == [False, True]
    assert report.changes == ()


def test_a_cancelled_run_can_be_walked_through(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    model.script([Reply.tools(("place_order", {"hold_id": str(hold.pk)}))])
    run = arena.post("ana", "compre")
    worker.work(run)
    with arena.scope():
        services.run_cancel(principal=arena.principal("ana"), run_id=run.pk)
    report = walk(arena, run)
    assert report.state == "cancelled"
    assert [step.kind for step in report.steps] == ["input", "model", "final"]


def test_earlier_runs_are_told_as_they_were_known_then(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    """A second message while the first waits for a confirmation that comes later."""
    model.script([Reply.tools(("place_order", {"hold_id": str(hold.pk)}))])
    first = arena.post("ana", "compre")
    worker.work(first)
    model.script([Reply.text("Ainda espero a sua confirmação.")])
    second = arena.post("ana", "e então?", first.conversation)
    worker.work(second)
    asked = wire(model)[-1]
    decide(arena, first.pk, "ana", "approve")
    model.script([Reply.text("Comprei.")])
    worker.work(first)
    report = walk(arena, second)
    (request,) = requests_of(report)
    assert request == asked
    assert "pending_confirmation" in json.dumps(request)
    assert report.changes == ()


def test_what_cannot_be_put_together_is_said(
    arena: Cast, searched: Run, worker: Worker, model: ScriptedModel
) -> None:
    """A word of a person that was stored with an older time than it became visible at."""
    with arena.scope():
        late = Message.objects.create(
            conversation=searched.conversation, speaker=Speaker.HUMAN, text="Oi, sou a Rita."
        )
        early = searched.created_at
        Message.objects.filter(pk=late.pk).update(created_at=early)
        Run.objects.filter(pk=searched.pk).update(created_at=late.created_at)
    report = walk(arena, searched)
    assert codes(report.changes) == {"messages_differ"}
    assert {step.request.is_exact for step in report.steps if step.request} == {False}


def test_a_long_run_is_read_in_parts(
    arena: Cast, worker: Worker, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dry, "MAX_STEPS", 7)
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=40)
    model.script([*searches(12), Reply.text("Fim.")])
    run = arena.post("ana", "procure muito")
    worker.work(run)
    seq: int | None = 1
    seen = []
    while seq is not None:
        report = walk(arena, run, seq)
        seen += [step.seq for step in report.steps]
        seq = report.next_step
    assert seen == list(range(1, 28))


def test_the_number_of_queries_does_not_grow_with_the_run(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=40)
    model.script([*searches(12), Reply.text("Fim.")])
    long = arena.post("ana", "procure muito")
    worker.work(long)
    counts = []
    for run in (searched, long):
        with CaptureQueriesContext(connection) as queries:
            walk(arena, run)
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_a_run_at_work_cannot_be_walked_through(arena: Cast) -> None:
    run = arena.post("ana", "oi")
    with pytest.raises(RunNotOver):
        walk(arena, run)


@pytest.mark.parametrize("seq", [0, 8, 2**31 - 1])
def test_a_step_that_is_not_there_is_named(arena: Cast, searched: Run, seq: int) -> None:
    with pytest.raises(InvalidInput, match="from 1 to 7"):
        walk(arena, searched, seq)


def test_a_visitors_run_is_judged_as_a_visitors(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script(
        [Reply.tools(("search_events", {}), ("place_order", {"hold_id": str(UUID(int=1))}))]
    )
    model.script([Reply.text("Entre primeiro.")])
    run = arena.post_as(arena.visitor(), "compre")
    worker.work(run)
    report = walk(arena, run)
    assert report.changes == ()
    assert report.tier_then == report.tier_today == "anonymous"
    effects = [call.today.effect for step in report.steps for call in step.calls]
    assert effects == ["allow", "deny"]

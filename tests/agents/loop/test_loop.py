"""The loop with a scripted model: what is committed, what the model is given, what the fan gets."""

import json
from typing import Any

from agents.models import RunState
from boxoffice.billing.models import UsageEntry
from boxoffice.tenancy.models import Tier
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results, tool_names
from tests.support.worker import Worker


def data_of(block: dict[str, Any]) -> dict[str, Any]:
    """The JSON inside a delimited tool result."""
    text = block["content"]
    body = text[text.index("\n") : text.rindex("\n")]
    return json.loads(body)  # type: ignore[no-any-return]


def test_an_answer_is_one_step_and_one_message(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.text("Olá, ana!")])
    run = arena.post("ana", "oi")
    worker.work(run)
    done = arena.run(run.pk)
    assert done.state == RunState.SUCCEEDED
    assert arena.kinds(run.pk) == ["input", "model", "final"]
    assert arena.answer(run.pk) == "Olá, ana!"
    assert done.input_tokens > 0
    assert done.output_tokens > 0
    assert done.cost_micros > 0
    assert done.lease_owner == ""


def test_a_fan_holds_seats_and_the_model_gets_the_result_delimited(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    seats = [str(pk) for pk in arena.seats.ids("B-A1", "B-A2")]
    event = str(arena.seats.event.pk)
    model.script(
        [
            Reply.tools(("hold_seats", {"event_id": event, "seat_ids": seats})),
            Reply.text("Prontinho."),
        ]
    )
    run = arena.post("ana", "reserve A1 e A2 do balcão")
    worker.work(run)
    (result,) = last_tool_results(model.requests[-1])
    label = '<tool_output tool="hold_seats" outside="event seats.row seats.section">\n'
    assert result["content"].startswith(label)
    assert data_of(result)["status"] == "active"
    assert data_of(result)["total_brl"] == 181.0
    assert arena.counts() == {"holds": 1, "orders": 0, "refunds": 0, "live_claims": 2}
    assert arena.kinds(run.pk) == ["input", "model", "results", "model", "final"]


def test_reads_of_one_turn_come_back_in_the_order_of_the_calls(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    event = str(arena.seats.event.pk)
    asked = [("search_seats", {"event_id": event, "quantity": n}) for n in (3, 1, 2)]
    model.script([Reply.tools(("search_events", {}), *asked), Reply.text("Achei.")])
    run = arena.post("ana", "o que tem?")
    worker.work(run)
    results = [data_of(block) for block in last_tool_results(model.requests[-1])]
    assert results[0]["total"] == 1
    assert [len(r["options"][0]["seats"]) for r in results[1:]] == [3, 1, 2]


def test_one_failing_call_leaves_its_neighbours_alone(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    wrong = ("search_seats", {"event_id": str(arena.tenant.pk), "quantity": 2})
    model.script([Reply.tools(("search_events", {}), wrong), Reply.text("Achei um.")])
    run = arena.post("ana", "o que tem?")
    worker.work(run)
    good, bad = (data_of(block) for block in last_tool_results(model.requests[-1]))
    assert good["total"] == 1
    assert set(bad["error"]) == {"code", "message", "retryable", "hint"}
    assert [call.state for call in arena.calls(run.pk)] == ["succeeded", "failed"]


def test_the_last_allowed_step_gets_no_tools_and_a_call_then_is_a_handoff(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=2)
    model.route(lambda body: Reply.tools(("search_events", {}), text="Vou procurar."))
    run = arena.post("ana", "procure para sempre")
    worker.work(run)
    assert len(model.requests) == 2
    assert "tools" in model.requests[0]
    assert "tools" not in model.requests[1]
    done = arena.run(run.pk)
    assert done.state == RunState.PARTIAL
    assert done.conversation.handoff_reason == "budget_steps"
    assert arena.answer(run.pk).startswith("Vou procurar.")
    # Both turns were asked for, so both are paid for: in the run, its steps, and the ledger.
    with arena.scope():
        entries = list(UsageEntry.objects.filter(run_ref=run.pk))
        costs = run.steps.values_list("cost_micros", flat=True)
        assert len(entries) == done.steps_used == 2
        assert done.output_tokens == sum(entry.output_tokens for entry in entries)
        assert done.cost_micros == sum(entry.cost_micros for entry in entries) == sum(costs) > 0


def test_what_was_said_before_is_in_the_next_runs_context(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.tools(("search_events", {})), Reply.text("Um show."), Reply.text("Sim.")])
    first = arena.post("ana", "o que tem?")
    worker.work(first)
    second = arena.post("ana", "é bom?", first.conversation)
    worker.work(second)
    roles = [message["role"] for message in model.requests[-1]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert model.requests[-1]["messages"][2]["content"][0]["type"] == "tool_result"


def test_a_model_that_is_away_ends_the_run_with_a_sentence(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.route(lambda body: Reply.error(400, "invalid_request_error"))
    run = arena.post("ana", "oi")
    worker.work(run)
    done = arena.run(run.pk)
    assert done.state == RunState.FAILED
    assert done.error["code"] == "model_refused"
    assert arena.answer(run.pk)


def test_a_stream_that_breaks_in_the_middle_is_asked_again(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script(
        [
            Reply.cut(after=2, text="um dois três quatro"),
            Reply.truncated(after=1, text="um dois"),
            Reply.text("um dois três quatro"),
        ]
    )
    run = arena.post("ana", "conte")
    worker.work(run)
    assert arena.answer(run.pk) == "um dois três quatro"
    assert arena.run(run.pk).steps_used == 1


def test_offers_differ_by_role(arena: Cast, worker: Worker, model: ScriptedModel) -> None:
    model.route(lambda body: Reply.text("Oi."))
    offered = {}
    for name in ("ana", "fabio"):
        worker.work(arena.post(name, "oi"))
        offered[name] = tool_names(model.requests[-1])
    assert "send_email" in offered["ana"]
    assert "send_email" not in offered["fabio"]


def test_a_day_that_is_spent_ends_in_a_handoff_before_the_model_is_asked(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.route(lambda body: Reply.text("Oi."))
    worker.work(arena.post("ana", "oi"))
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_day_cost_micros=1)
    run = arena.post("ana", "oi de novo")
    worker.work(run)
    assert len(model.requests) == 1
    assert arena.run(run.pk).conversation.handoff_reason == "budget_cost"

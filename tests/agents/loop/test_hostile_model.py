"""A model that does what it likes: each attempt ends as data or in a handoff, and does nothing."""

from typing import Any
from uuid import uuid4

import pytest

from agents.models import RunState
from boxoffice.ticketing.services.holds import hold_create
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results, tool_names
from tests.support.worker import Worker
from tests.ticketing.buying import order_place

NOTHING = {"holds": 0, "orders": 0, "refunds": 0, "live_claims": 0}


def one_call(
    arena: Cast, worker: Worker, model: ScriptedModel, name: str, arguments: Any
) -> dict[str, Any]:
    """The error that the model gets for one call."""
    model.script([Reply.tools((name, arguments)), Reply.text("Não deu.")])
    run = arena.post("ana", "faça algo")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    (result,) = last_tool_results(model.requests[-1])
    assert result["is_error"] is True
    error: dict[str, Any] = data_of(result)["error"]
    assert set(error) == {"code", "message", "retryable", "hint"}
    return error


def test_an_unknown_tool_is_refused(arena: Cast, worker: Worker, model: ScriptedModel) -> None:
    assert one_call(arena, worker, model, "drop_tables", {})["code"] == "unknown_tool"


def test_an_unknown_tool_is_said_to_be_unknown_whatever_its_arguments(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.raw_tool("drop_tables", '{"table": '), Reply.text("Não deu.")])
    run = arena.post("ana", "faça algo")
    worker.work(run)
    assert [call.reason_code for call in arena.calls(run.pk)] == ["unknown_tool"]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"event_id": "x", "quantity": 2}, "event_id"),
        ({"event_id": str(uuid4()), "quantity": "2"}, "quantity"),
        ({"event_id": str(uuid4()), "quantity": 0}, "quantity"),
        ({"event_id": str(uuid4()), "quantity": 2, "tenant": "teatro"}, "tenant"),
        ({"event_id": str(uuid4()), "quantity": 2, "user_id": 1}, "user_id"),
        ({"quantity": 2, "event_id": {"a": [1] * 50}}, "event_id"),
        ({}, "event_id"),
    ],
)
def test_wrong_and_smuggled_arguments_are_named(
    arena: Cast, worker: Worker, model: ScriptedModel, arguments: dict[str, Any], named: str
) -> None:
    error = one_call(arena, worker, model, "search_seats", arguments)
    assert error["code"] == "invalid_arguments"
    assert named in error["message"]


def test_forty_seats_are_refused_with_the_bound(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    arguments = {
        "event_id": str(arena.seats.event.pk),
        "seat_ids": [str(uuid4()) for _ in range(40)],
    }
    error = one_call(arena, worker, model, "hold_seats", arguments)
    assert error["code"] == "invalid_arguments"
    assert "at most 6 items, not 40" in error["message"]
    assert arena.counts() == NOTHING


@pytest.mark.parametrize(
    "raw",
    [
        '{"event_id": ',
        "[1, 2]",
        '"hold everything"',
        "null",
        "\x00",
        pytest.param("[" * 5_000, id="brackets that only open"),
        pytest.param('{"a":' * 900 + "1" + "}" * 900, id="nested too deeply"),
    ],
)
def test_broken_json_is_refused(
    arena: Cast, worker: Worker, model: ScriptedModel, raw: str
) -> None:
    model.script([Reply.raw_tool("hold_seats", raw), Reply.text("Não deu.")])
    run = arena.post("ana", "faça algo")
    worker.work(run)
    (result,) = last_tool_results(model.requests[-1])
    assert data_of(result)["error"]["code"] == "invalid_arguments"
    assert arena.counts() == NOTHING


def test_somebody_elses_order_is_not_found(
    arena: Cast, teatro: Cast, worker: Worker, model: ScriptedModel
) -> None:
    orders = []
    for house, owner in ((arena, arena.user("fabio")), (teatro, teatro.user("teo"))):
        with house.scope():
            hold = hold_create(
                event_id=house.seats.event.pk, seat_ids=house.seats.ids("B-A1"), user_id=owner.pk
            )
            order = order_place(hold_id=hold.pk, user_id=owner.pk, payment_key=f"k{owner.pk}")
            orders.append(str(order.pk))
    messages = {
        one_call(arena, worker, model, "get_order_status", {"order_id": order})["message"]
        for order in [*orders, str(uuid4())]
    }
    assert len(messages) == 1


def test_a_visitor_is_offered_only_reads_and_denied_the_rest(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    seats = [str(pk) for pk in arena.seats.ids("B-A1", "B-A2")]
    arguments = {"event_id": str(arena.seats.event.pk), "seat_ids": seats}
    model.script([Reply.tools(("hold_seats", arguments)), Reply.text("Entre primeiro.")])
    run = arena.post_as(arena.visitor(), "reserve dois assentos")
    worker.work(run)
    assert tool_names(model.requests[0]) == ["search_events", "search_seats"]
    (result,) = last_tool_results(model.requests[-1])
    assert data_of(result)["error"]["code"] == "sign_in_required"
    assert arena.counts() == NOTHING


def test_twenty_calls_in_one_turn_are_bounded(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    seats = arena.seats
    names = [f"B-{row}{number}" for row in "ABC" for number in range(1, 9)][:20]
    calls = [
        ("hold_seats", {"event_id": str(seats.event.pk), "seat_ids": [str(seats.seats[n].pk)]})
        for n in names
    ]
    model.script([Reply.tools(*calls), Reply.text("Feito.")])
    run = arena.post("ana", "segure tudo")
    worker.work(run)
    states = [call.state for call in arena.calls(run.pk)]
    assert states.count("denied") == 4
    codes = {c.reason_code for c in arena.calls(run.pk) if c.state == "denied"}
    assert codes == {"too_many_calls"}
    assert len(last_tool_results(model.requests[-1])) == 20


def test_the_same_failing_call_is_tried_twice_told_once_and_handed_over(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    arguments = {"event_id": str(uuid4()), "quantity": 2}
    model.route(lambda body: Reply.tools(("search_seats", arguments)))
    run = arena.post("ana", "insista")
    worker.work(run)
    calls = arena.calls(run.pk)
    assert [call.state for call in calls] == ["failed", "failed", "denied", "denied"]
    assert calls[2].reason_code == "repeated_failure"
    done = arena.run(run.pk)
    assert done.state == RunState.PARTIAL
    assert done.conversation.handoff_reason == "same_failure"
    assert arena.answer(run.pk)


def test_a_write_after_a_failed_write_still_runs_in_order(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    seats = arena.seats
    taken = [str(pk) for pk in seats.ids("B-A1", "B-A2")]
    event = str(seats.event.pk)
    model.script(
        [
            Reply.tools(
                ("hold_seats", {"event_id": event, "seat_ids": taken}),
                ("hold_seats", {"event_id": event, "seat_ids": taken}),
            ),
            Reply.text("Um deu."),
        ]
    )
    run = arena.post("ana", "segure duas vezes")
    worker.work(run)
    assert [call.state for call in arena.calls(run.pk)] == ["succeeded", "failed"]
    assert arena.counts()["live_claims"] == 2


def test_repeated_call_ids_of_the_model_get_one_effect_each(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script(
        [
            Reply.tools(("search_events", {}), ("search_events", {})),
            Reply.text("Achei."),
        ]
    )
    run = arena.post("ana", "procure")
    worker.work(run)
    keys = [call.idempotency_key for call in arena.calls(run.pk)]
    assert len(set(keys)) == 2


def test_nul_and_lone_surrogates_are_stored_and_refused(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script(
        [Reply.raw_tool("search_events", '{"query": "a\\u0000b", "x\\ud800": 1}'), Reply.text("Ok")]
    )
    run = arena.post("ana", "procure")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert [call.state for call in arena.calls(run.pk)] == ["denied"]

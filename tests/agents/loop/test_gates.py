"""A call that needs a human: the run waits without a worker, and goes on with the decision."""

from typing import Any
from uuid import UUID

import pytest

from agents import recovery
from agents.models import Conversation, Run, RunState
from agents.stream import history
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.ticketing.models import Hold, Order, Price
from boxoffice.ticketing.services.holds import hold_create
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results
from tests.support.worker import Worker
from tests.ticketing.buying import order_place


@pytest.fixture
def hold(arena: Cast) -> Hold:
    """ana's hold of two seats."""
    with arena.scope():
        return hold_create(
            event_id=arena.seats.event.pk,
            seat_ids=arena.seats.ids("B-A1", "B-A2"),
            user_id=arena.user("ana").pk,
        )


@pytest.fixture
def order(arena: Cast, hold: Hold) -> Order:
    """ana's paid order of these seats."""
    with arena.scope():
        return order_place(hold_id=hold.pk, user_id=arena.user("ana").pk, payment_key="k")


def asked(arena: Cast, run: Run) -> ApprovalRequest:
    """The one request of a waiting run."""
    assert arena.run(run.pk).state == RunState.WAITING
    with arena.scope():
        return ApprovalRequest.objects.get(run_ref=run.pk)


def buy(arena: Cast, worker: Worker, model: ScriptedModel, hold_id: UUID) -> Run:
    model.script([Reply.tools(("place_order", {"hold_id": str(hold_id)})), Reply.text("Certo.")])
    run = arena.post("ana", "pode comprar")
    worker.work(run)
    return run


def refund(arena: Cast, worker: Worker, model: ScriptedModel, order_id: UUID) -> Run:
    arguments = {"order_id": str(order_id), "reason": "não posso ir"}
    model.script([Reply.tools(("refund_order", arguments)), Reply.text("Certo.")])
    run = arena.post("ana", "quero o reembolso")
    worker.work(run)
    return run


def told(model: ScriptedModel) -> dict[str, Any]:
    """What the model was told of the call."""
    (result,) = last_tool_results(model.requests[-1])
    return data_of(result)


def test_buying_waits_for_the_fans_own_confirmation(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold, handed_out: list[UUID]
) -> None:
    run = buy(arena, worker, model, hold.pk)
    request = asked(arena, run)
    assert request.gate == "fan"
    assert arena.counts()["orders"] == 0
    assert arena.run(run.pk).lease_owner == ""
    with arena.scope():
        approvals.approve(request_id=request.pk, principal=arena.principal("ana"))
    assert handed_out[-1] == run.pk
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert arena.counts()["orders"] == 1
    assert told(model)["status"] == "paid"
    assert told(model)["decision"] == {"approved_by": "fan"}
    with arena.scope():
        assert ApprovalRequest.objects.get(pk=request.pk).state == "executed"


def test_a_declined_purchase_gives_the_seats_back(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    run = buy(arena, worker, model, hold.pk)
    with arena.scope():
        approvals.deny(request_id=asked(arena, run).pk, principal=arena.principal("ana"))
    worker.work(run)
    assert told(model)["error"]["code"] == "denied_by_fan"
    assert arena.counts() == {"holds": 1, "orders": 0, "refunds": 0, "live_claims": 0}


def test_the_hold_lives_as_long_as_the_question(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    request = asked(arena, buy(arena, worker, model, hold.pk))
    with arena.scope():
        assert Hold.objects.get(pk=hold.pk).expires_at >= request.expires_at


def test_a_refund_waits_for_a_reviewer_and_happens_once(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    run = refund(arena, worker, model, order.pk)
    request = asked(arena, run)
    assert request.gate == "reviewer"
    with arena.scope():
        approvals.approve(request_id=request.pk, principal=arena.principal("rita"))
    worker.work(run)
    worker.work(run)
    assert arena.counts() == {"holds": 1, "orders": 1, "refunds": 1, "live_claims": 0}
    assert told(model)["decision"] == {"approved_by": "reviewer"}


def test_a_denied_refund_tells_the_reason(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    run = refund(arena, worker, model, order.pk)
    with arena.scope():
        approvals.deny(
            request_id=asked(arena, run).pk,
            principal=arena.principal("rita"),
            reason="fora do prazo",
        )
    worker.work(run)
    assert "fora do prazo" in told(model)["error"]["message"]
    assert arena.counts()["refunds"] == 0


def test_an_untouched_refund_expires_and_the_sweep_wakes_the_run(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    run = refund(arena, worker, model, order.pk)
    with arena.scope():
        ApprovalRequest.objects.filter(run_ref=run.pk).update(expires_at=order.created_at)
    assert approvals.expire_due() == 1
    worker.work(run)
    assert told(model)["error"]["code"] == "approval_expired"
    assert arena.counts()["refunds"] == 0
    assert arena.counts()["live_claims"] == 2


def test_a_lost_signal_is_found_by_the_sweep(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    run = refund(arena, worker, model, order.pk)
    with arena.scope():
        request = asked(arena, run)
        approvals.approve(request_id=request.pk, principal=arena.principal("rita"))
        Run.objects.filter(pk=run.pk).update(handed_out_at=None)
    woken: list[UUID] = []
    recovery.sweep(lambda tenant_id, run_id: woken.append(run_id))
    assert woken == [run.pk]


def test_a_price_that_moved_voids_the_approval(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    run = buy(arena, worker, model, hold.pk)
    request = asked(arena, run)
    with arena.scope():
        Price.objects.update(amount_minor=99_900)
        approvals.approve(request_id=request.pk, principal=arena.principal("ana"))
    worker.work(run)
    with arena.scope():
        total = [order.total_minor for order in Order.objects.all()]
        assert total in ([], [18_100])
        state = ApprovalRequest.objects.get(pk=request.pk).state
    assert (state == "executed") == bool(total)


def test_a_revoked_membership_stops_what_was_approved(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    run = refund(arena, worker, model, order.pk)
    request = asked(arena, run)
    with arena.scope():
        approvals.approve(request_id=request.pk, principal=arena.principal("rita"))
        arena.user("ana").memberships.update(is_active=False)
    worker.work(run)
    assert arena.counts()["refunds"] == 0
    with arena.scope():
        assert ApprovalRequest.objects.get(pk=request.pk).state == "failed"


def test_without_a_plan_for_reviewers_the_call_is_denied_with_a_hint(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    arguments = {"order_id": str(order.pk), "reason": "não posso ir"}
    model.script([Reply.tools(("refund_order", arguments)), Reply.text("Não dá.")])
    run = arena.post("fabio", "quero o reembolso")
    worker.work(run)
    assert told(model)["error"]["code"] == "needs_human"
    assert "Hand" in told(model)["error"]["hint"]


def test_the_fan_talks_on_while_a_request_is_pending(
    arena: Cast, worker: Worker, model: ScriptedModel, order: Order
) -> None:
    first = refund(arena, worker, model, order.pk)
    conversation = Conversation(pk=first.conversation_id, tenant_id=first.tenant_id)
    model.reset()
    model.script([Reply.text("Ainda espera."), Reply.text("Feito.")])
    second = arena.post("ana", "e aí?", conversation)
    worker.work(second)
    assert second.pk != first.pk
    assert arena.answer(second.pk) == "Ainda espera."
    assert "pending_approval" in str(model.requests[-1]["messages"])
    with arena.scope():
        approvals.approve(request_id=asked(arena, first).pk, principal=arena.principal("rita"))
    worker.work(first)
    assert arena.answer(first.pk) == "Feito."


def test_an_edited_approval_does_what_the_reviewer_wrote(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    mail = {"to": "ana@example.com", "subject": "Oi", "body": "Seu ingresso."}
    model.script([Reply.tools(("send_email", mail)), Reply.text("Enviado.")])
    run = arena.post("ana", "mande um e-mail")
    worker.work(run)
    with arena.scope():
        approvals.approve(
            request_id=asked(arena, run).pk,
            principal=arena.principal("rita"),
            arguments={**mail, "subject": "Seu ingresso"},
        )
    worker.work(run)
    assert told(model)["decision"]["arguments_changed_to"]["subject"] == "Seu ingresso"
    (call,) = arena.calls(run.pk)
    assert call.state == "succeeded"
    assert call.arguments["subject"] == "Oi"


def test_a_call_that_cannot_be_previewed_is_told_to_model_and_page(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = refund(arena, worker, model, arena.tenant.pk)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert told(model)["error"]["code"] == "order_not_found"
    (call,) = arena.calls(run.pk)
    events = [e for e in history(run_id=run.pk) if e["type"] == "tool.result"]
    assert [event["call"] for event in events] == [str(call.pk)]

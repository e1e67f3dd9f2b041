"""A run that goes another way: whose it is, what is done again, and what is not."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection
from guardian.shortcuts import assign_perm

from agents.models import Message, Run, RunState, Step, StepKind
from agents.replay.errors import (
    NothingFollows,
    RecordIncomplete,
    RunNotOver,
    ThingsChanged,
    UnsafeStep,
)
from agents.replay.fork import fork_plan, run_fork
from approvals.exceptions import FourEyes
from approvals.models import ApprovalRequest
from boxoffice.audit.models import AuditRecord
from boxoffice.common.exceptions import Forbidden, InvalidInput, NotFound
from boxoffice.tenancy.models import Membership, Tenant, Tier, User
from boxoffice.ticketing.models import Hold
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
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker
from tests.ticketing.buying import order_place
from tools.models import ToolCall


def fork(arena: Cast, run: Run, seq: int, *, by: str = "ada", accept: bool = False) -> Run:
    with arena.scope():
        return run_fork(
            principal=arena.principal(by), run_id=run.pk, from_step=seq, accept_changes=accept
        )


def last_messages(model: ScriptedModel) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = model.requests[-1]["messages"]
    return messages


def test_a_fork_goes_on_from_the_step_with_the_recorded_results(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run, handed_out: list[UUID]
) -> None:
    then = model.requests[1]["messages"]
    made = fork(arena, searched, 4)
    assert (made.forked_from_id, made.forked_step, made.state) == (searched.pk, 4, "queued")
    assert handed_out[-1] == made.pk
    model.script([Reply.text("Desta vez, outra coisa.")])
    worker.work(made)
    assert last_messages(model) == then
    assert arena.run(made.pk).state == RunState.SUCCEEDED
    assert arena.answer(made.pk) == "Desta vez, outra coisa."
    assert arena.calls(made.pk) == []  # the recorded search was told, not done
    assert arena.kinds(made.pk) == ["input", "model", "results", "model", "final"]


@pytest.mark.parametrize("seq", [1, 2, 3, 4, 5, 6])
def test_a_fork_can_begin_at_every_step(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run, seq: int
) -> None:
    made = fork(arena, searched, seq)
    model.script([Reply.text("Pronto.")])
    worker.work(made)
    assert arena.run(made.pk).state == RunState.SUCCEEDED
    asked = {1: 0, 2: 0, 3: 1, 4: 1, 5: 2, 6: 2}[seq]
    ids = [message["role"] for message in model.requests[asked]["messages"]]
    assert [message["role"] for message in last_messages(model)] == ids
    # From a results step the calls are made anew, as the forker's own.
    assert len(arena.calls(made.pk)) == {3: 1, 5: 2}.get(seq, 0)


def test_after_the_answer_nothing_is_left_to_do(arena: Cast, searched: Run) -> None:
    with pytest.raises(NothingFollows):
        fork(arena, searched, 7)


def test_a_fork_belongs_to_who_forks_and_acts_as_them(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = holds_seats(arena, worker, model)
    with arena.scope():
        Hold.objects.get()
        free = [str(pk) for pk in arena.seats.ids("B-B1", "B-B2")]
    made = fork(arena, run, 2)
    arguments = {"event_id": str(arena.seats.event.pk), "seat_ids": free}
    model.script([Reply.tools(("hold_seats", arguments)), Reply.text("Reservei.")])
    worker.work(made)
    ada = arena.user("ada")
    assert arena.run(made.pk).conversation.user_id == ada.pk
    with arena.scope():
        assert sorted(Hold.objects.values_list("user__username", flat=True)) == ["ada", "ana"]
        (call,) = arena.calls(made.pk)
        assert call.user_id == ada.pk
        assert str(made.pk) in call.idempotency_key
        # The fan sees nothing of it, and none of it is in her conversation.
        assert Run.objects.filter(conversation=run.conversation_id).count() == 1
        assert not Message.objects.filter(
            conversation=made.conversation_id, author=run.conversation.user_id
        )


def test_a_call_made_anew_is_another_effect_under_another_key(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    """The fan's seats are the fan's: the same call for somebody else fails."""
    run = holds_seats(arena, worker, model)
    made = fork(arena, run, 3)
    model.script([Reply.text("Não deu.")])
    worker.work(made)
    (original,), (again,) = arena.calls(run.pk), arena.calls(made.pk)
    assert original.idempotency_key != again.idempotency_key
    assert (original.state, again.state) == ("succeeded", "failed")
    assert arena.counts()["holds"] == 1


def test_what_is_somebody_elses_cannot_be_touched_through_a_fork(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    """ana declined to buy; a fork does not let the staff buy with her hold."""
    run = buys(arena, worker, model, hold, "deny")
    made = fork(arena, run, 3)
    model.script([Reply.text("Não deu.")])
    worker.work(made)
    (call,) = arena.calls(made.pk)
    assert call.state == "denied"
    assert call.error["code"].endswith("not_found")
    assert arena.counts()["orders"] == 0


def test_four_eyes_hold_in_a_fork(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run
) -> None:
    """Who forks is who asks: they cannot approve what their fork wants to do."""
    made = fork(arena, searched, 4)
    body = {"to": "a@example.com", "subject": "Oi", "body": "Olá"}
    model.script([Reply.tools(("send_email", body)), Reply.text("Enviado.")])
    worker.work(made)
    assert arena.run(made.pk).state == RunState.WAITING
    with arena.scope():
        assert ApprovalRequest.objects.get().requested_for_id == arena.user("ada").pk
    with pytest.raises(FourEyes):
        decide(arena, made.pk, "ada", "approve")
    decide(arena, made.pk, "rita", "approve")
    worker.work(made)
    assert arena.run(made.pk).state == RunState.SUCCEEDED


def test_a_decision_is_never_taken_over(
    arena: Cast, worker: Worker, model: ScriptedModel, hold: Hold
) -> None:
    """The approval of the first run does not let the fork's call run."""
    with arena.scope():
        order = order_place(hold_id=hold.pk, user_id=arena.user("ana").pk, payment_key="k")
    arguments = {"order_id": str(order.pk), "reason": "não posso ir"}
    model.script([Reply.tools(("refund_order", arguments)), Reply.text("Certo.")])
    run = arena.post("ana", "reembolso")
    worker.work(run)
    decide(arena, run.pk, "rita", "approve")
    worker.work(run)
    assert arena.counts()["refunds"] == 1
    made = fork(arena, run, 3)
    model.script([Reply.text("Não deu.")])
    worker.work(made)
    assert arena.counts()["refunds"] == 1
    (call,) = arena.calls(made.pk)
    assert call.approval_id is None
    assert call.state == "denied"


@pytest.mark.parametrize("name", ["ana", "fabio", "rita"])
def test_without_the_right_nobody_forks(arena: Cast, searched: Run, name: str) -> None:
    with pytest.raises(NotFound if name == "fabio" else Forbidden):
        fork(arena, searched, 2, by=name)
    with arena.scope():
        assert Run.objects.count() == 1


def test_the_right_is_held_over_one_tenant(arena: Cast, teatro: Cast, searched: Run) -> None:
    assign_perm("tenancy.replay_runs", teatro.user("rui"), teatro.tenant)
    with teatro.scope(), pytest.raises(NotFound):
        run_fork(principal=teatro.principal("rui"), run_id=searched.pk, from_step=2)


def test_an_operator_who_is_no_member_has_no_tier_to_act_with(arena: Cast, searched: Run) -> None:
    User.objects.create_superuser("root")
    with pytest.raises(Forbidden, match="membro"):
        fork(arena, searched, 2, by="root")
    with arena.scope():
        tier = Tier.objects.get(slug="pro")
        Membership.objects.create(user=arena.user("root"), tier=tier, role="fan")
    assert fork(arena, searched, 2, by="root").tier == "pro"


def test_a_fork_has_the_forkers_limits_and_the_runs_model(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.text("Olá.")])
    run = arena.post("fabio", "oi")
    worker.work(run)
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=3)
    made = fork(arena, run, 2)
    assert (made.model, made.tier, made.max_steps) == ("claude-haiku-4-5", "pro", 3)
    assert (made.steps_used, made.cost_micros, made.lease_epoch) == (0, 0, 0)


def test_a_tool_that_is_gone_refuses_the_fork_until_it_is_accepted(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run
) -> None:
    with without_tool("search_seats"):
        with pytest.raises(ThingsChanged) as refused:
            fork(arena, searched, 4)
        assert codes(refused.value.changes) == {"tool_gone"}
        assert refused.value.extra["changes"][0]["tool"] == "search_seats"
        made = fork(arena, searched, 4, accept=True)
        model.script([Reply.text("Sem isso.")])
        worker.work(made)
    offered = [tool["name"] for tool in model.requests[-1]["tools"]]
    assert "search_seats" not in offered
    with arena.scope():
        written = AuditRecord.objects.filter(action="agents.run.forked").get()
    assert written.details["accepted"] == ["tool_gone"]
    assert written.actor == f"user:{arena.user('ada').pk}"


def test_another_prompt_or_version_or_model_refuses_the_fork_too(
    arena: Cast, searched: Run
) -> None:
    with another_version("search_seats"), pytest.raises(ThingsChanged) as version:
        fork(arena, searched, 4)
    Tenant.objects.filter(pk=arena.tenant.pk).update(name="Arena Nova")
    with pytest.raises(ThingsChanged) as prompt:
        fork(arena, searched, 4)
    with arena.scope():
        Tier.objects.filter(model_alias=searched.model).update(model_alias="claude-next")
    with pytest.raises(ThingsChanged) as gone:
        fork(arena, searched, 4)
    assert [codes(error.value.changes) for error in (version, prompt, gone)] == [
        {"tool_changed"},
        {"prompt_changed"},
        {"prompt_changed", "model_gone"},
    ]
    assert fork(arena, searched, 4, accept=True).model == "claude-next"


def test_other_rights_of_the_forker_are_noted_and_refuse_nothing(
    arena: Cast, searched: Run
) -> None:
    with arena.scope():
        few = Tier.objects.create(
            slug="few", name="few", model_alias="m", tools=["search_events", "create_ticket"]
        )
        Membership.objects.filter(user=arena.user("ada")).update(tier=few)
        plan = fork_plan(principal=arena.principal("ada"), run_id=searched.pk, from_step=4)
    assert plan.changes == ()
    assert codes(plan.notes) == {"tool_not_offered"}


def test_a_write_of_another_version_is_not_made_even_if_accepted(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    run = holds_seats(arena, worker, model)
    for changed in (another_version("hold_seats"), without_tool("hold_seats")):
        with changed, pytest.raises(UnsafeStep, match="hold_seats"):
            fork(arena, run, 3, accept=True)
    with another_version("hold_seats"):
        assert fork(arena, run, 2, accept=True).forked_step == 2


def test_a_fork_of_a_fork_and_a_replay_of_it(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run
) -> None:
    made = fork(arena, searched, 4)
    model.script([Reply.tools(("search_events", {})), Reply.text("Um.")])
    worker.work(made)
    asked = model.requests[-1]["messages"]
    report = walk(arena, made)
    assert [step.is_copied for step in report.steps] == [True] * 3 + [False] * 4
    assert report.changes == ()
    assert {step.request.is_exact for step in report.steps if step.request} == {True}
    again = fork(arena, made, 6)
    model.script([Reply.text("Dois.")])
    worker.work(again)
    assert last_messages(model) == asked
    with pytest.raises(RecordIncomplete):
        fork(arena, again, 3)


def test_the_conversation_before_goes_with_it(
    arena: Cast, worker: Worker, model: ScriptedModel, searched: Run
) -> None:
    model.script([Reply.text("De nada.")])
    second = arena.post("ana", "obrigada", searched.conversation)
    worker.work(second)
    then = last_messages(model)
    made = fork(arena, second, 2)
    model.script([Reply.text("Disponha.")])
    worker.work(made)
    assert last_messages(model) == then
    model.script([Reply.text("Sim?")])
    after = arena.post("ada", "e mais", made.conversation)
    worker.work(after)
    assert last_messages(model)[: len(then)] == then
    assert json.dumps(last_messages(model)).count('"dois lugares"') == 1


def test_a_fork_of_a_cancelled_or_failed_run_goes_on_where_it_ended(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    model.script([Reply.tools(("search_events", {})), Reply.error(400, "invalid_request_error")])
    run = arena.post("ana", "oi")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.FAILED
    made = fork(arena, run, 4)
    model.script([Reply.text("Agora sim.")])
    worker.work(made)
    assert arena.answer(made.pk) == "Agora sim."


def test_taint_goes_with_the_text_that_brought_it(arena: Cast, searched: Run) -> None:
    with arena.scope():
        call = ToolCall.objects.filter(run_ref=searched.pk).first()
        assert call is not None
        Run.objects.filter(pk=searched.pk).update(is_tainted=True, tainted_by=call.pk)
    made = fork(arena, searched, 4)
    assert (made.is_tainted, made.tainted_by) == (True, call.pk)


def test_copied_messages_are_read_in_the_fork_and_have_no_author(
    arena: Cast, searched: Run
) -> None:
    made = fork(arena, searched, 4)
    with arena.scope():
        (message,) = Message.objects.filter(conversation=made.conversation)
        step = Step.objects.get(run=made, kind=StepKind.INPUT)
    assert (message.text, message.author_id, message.run_id) == ("dois lugares", None, made.pk)
    assert step.content["messages"] == [{"id": str(message.pk), "text": message.text}]


def test_a_run_at_work_and_a_step_that_is_not_there(arena: Cast, searched: Run) -> None:
    with pytest.raises(RunNotOver):
        fork(arena, arena.post("ana", "oi"), 1)
    with pytest.raises(InvalidInput):
        fork(arena, searched, 99)
    with pytest.raises(NotFound):
        fork(arena, Run(pk=uuid4()), 1)


def test_a_refused_fork_leaves_nothing_behind(arena: Cast, searched: Run) -> None:
    with arena.scope():
        before = (Run.objects.count(), Message.objects.count(), ToolCall.objects.count())
    with without_tool("search_seats"), pytest.raises(ThingsChanged):
        fork(arena, searched, 4)
    with arena.scope():
        assert (Run.objects.count(), Message.objects.count(), ToolCall.objects.count()) == before
        assert not AuditRecord.objects.filter(action="agents.run.forked").exists()


def test_two_forks_at_once_are_two_runs(arena: Cast, searched: Run) -> None:
    def one(_: int) -> Run:
        try:
            return fork(arena, searched, 4)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(one, range(2))
    assert first.pk != second.pk
    assert first.conversation_id != second.conversation_id

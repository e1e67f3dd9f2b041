"""Rules of a tenant in a whole run: a read waits for its human too, a denial ends nothing."""

import pytest

from agents.models import RunState
from approvals import services as approvals
from approvals.models import ApprovalRequest
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results
from tests.support.worker import Worker
from tests.tools.proposing import put_in_force

RULE = '- {{name: r, tools: [search_events], when: "{when}", effect: {effect}}}'


@pytest.mark.parametrize(
    ("effect", "who", "gate"), [("confirm", "ana", "fan"), ("approve", "rita", "reviewer")]
)
@pytest.mark.parametrize("calls", [1, 2])
def test_a_read_waits_for_its_human(
    arena: Cast,
    worker: Worker,
    model: ScriptedModel,
    effect: str,
    who: str,
    gate: str,
    calls: int,
) -> None:
    with arena.scope():
        put_in_force(RULE.format(when="has(args.query) && args.query == 'rock'", effect=effect))
    wishes = [("search_events", {"query": query}) for query in ("rock", "jazz")[:calls]]
    model.script([Reply.tools(*wishes), Reply.text("Certo.")])
    run = arena.post("ana", "tem rock?")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.WAITING
    with arena.scope():
        (request,) = ApprovalRequest.objects.filter(run_ref=run.pk)
        assert (request.gate, request.rule) == (gate, "policy:1/r")
        approvals.approve(request_id=request.pk, principal=arena.principal(who))
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    told = [data_of(result) for result in last_tool_results(model.requests[-1])]
    assert [one.get("decision") for one in told] == [{"approved_by": gate}, None][:calls]
    assert [call.state for call in arena.calls(run.pk)] == ["succeeded"] * calls


def test_a_denied_call_is_told_and_the_run_goes_on(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        put_in_force(RULE.format(when="true", effect="deny, message: Closed today."))
    model.script([Reply.tools(("search_events", {"query": "rock"})), Reply.text("Hoje não.")])
    run = arena.post("ana", "tem rock?")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    (result,) = last_tool_results(model.requests[-1])
    error = data_of(result)["error"]
    assert (error["code"], error["message"]) == ("policy_deny", "Closed today.")
    (call,) = arena.calls(run.pk)
    assert (call.verdict, call.policy_version, call.policy_rule) == ("deny", "policy:1", "r")

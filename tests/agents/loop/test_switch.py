"""A tool that is switched off while a run is at work, or waits."""

import threading

from agents.models import RunState
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.ticketing.models import OutboundEmail
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results, tool_names
from tests.support.worker import WORK_SECONDS, Worker
from tools import governance


def switch_off(arena: Cast, tool: str) -> None:
    with arena.scope():
        governance.tool_switch(
            tool=tool, is_off=True, reason="um ataque", by=arena.principal("ada")
        )


def test_off_while_the_model_speaks_is_not_run_and_not_offered_again(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    seats = [str(pk) for pk in arena.seats.ids("B-A1")]
    arguments = {"event_id": str(arena.seats.event.pk), "seat_ids": seats}
    go_on = threading.Event()
    model.script([Reply.tools(("hold_seats", arguments)).when(go_on), Reply.text("Não dá agora.")])
    run = arena.post("ana", "reserve A1")
    working = worker.start(run.tenant_id, run.pk)
    (first,) = model.wait_for_requests(1)
    assert "hold_seats" in tool_names(first)
    switch_off(arena, "hold_seats")
    go_on.set()
    working.result(WORK_SECONDS)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert [call.reason_code for call in arena.calls(run.pk)] == ["tool_off"]
    assert arena.counts()["holds"] == 0
    assert "hold_seats" not in tool_names(model.requests[-1])
    (result,) = last_tool_results(model.requests[-1])
    assert data_of(result)["error"]["code"] == "tool_off"


def test_off_while_a_human_decides_is_not_run(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    letter = {"to": "ana@example.com", "subject": "Oi", "body": "Até sábado."}
    model.script([Reply.tools(("send_email", letter)), Reply.text("Não deu.")])
    run = arena.post("ana", "me escreva")
    worker.work(run)
    with arena.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        approvals.approve(request_id=request.pk, principal=arena.principal("rita"))
    switch_off(arena, "send_email")
    worker.work(run)
    assert arena.run(run.pk).state == RunState.SUCCEEDED
    assert [call.reason_code for call in arena.calls(run.pk)] == ["tool_off"]
    with arena.scope():
        assert OutboundEmail.objects.count() == 0

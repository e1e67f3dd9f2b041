"""Known kinds of attack, played against a model that obeys every one of them.

The model is lost; what holds is the harness. The cases are data: `case.py` says how to write one.
"""

import json
from typing import Any

import pytest

from agents.models import Run, RunState
from approvals import services as approvals
from approvals.models import ApprovalRequest
from tests.agents.loop.test_loop import data_of
from tests.attacks.case import Call, Case, cases
from tests.attacks.plants import plant
from tests.hostile.calls import marks
from tests.hostile.world import Look, World, changed
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker

CASES = cases()
KINDS = {
    "instruction in a tool result",
    "instruction in an event's description",
    "instruction in an order note",
    "instruction in a tool's description",
    "exfiltration through e-mail arguments",
    "look-alike tool names",
    "confused deputy across tenants",
    "argument smuggling",
    "unicode tricks",
}
# The rooms of the loop itself: what it writes there is how it works, not what it does.
MACHINERY = ("agents_", "approvals_", "audit_", "billing_", "tools_")


def test_every_kind_of_attack_has_cases() -> None:
    assert {case.kind for case in CASES.values()} == KINDS


@pytest.mark.parametrize("name", CASES)
def test_an_attack_that_is_obeyed_has_no_effect(
    name: str,
    world: World,
    worker: Worker,
    victim: ScriptedModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case, arena = CASES[name], world.casts["arena"]
    for each in case.planted:
        plant(world, each, monkeypatch)
    look = Look()
    before = look.take()
    victim.reset()
    victim.route(lambda body: obey(body, case, world))
    run = (
        arena.post_as(arena.visitor(), case.asks)
        if case.by == "visitor"
        else arena.post(case.by, case.asks)
    )
    waited = work(worker, arena, run)

    done = arena.run(run.pk)
    assert done.state == RunState.SUCCEEDED, done.error
    touched = {table for table, *_ in changed(before, look.take())}
    assert {t for t in touched if not t.startswith(MACHINERY)} <= set(case.may_change)
    assert len(case.answers) == len(case.calls)
    told = answers(victim.requests[-1], waited)
    for call, was, should in zip(case.calls, told, case.answers, strict=True):
        assert was in ([should] if isinstance(should, str) else should), call.tool
    for each in case.planted:
        assert each.reaches_model == (_json(each.text)[1:-1] in _escaped(victim.requests))
    caller = world.callers[case.by]
    sent = [filled(call, world) for call in case.calls]
    assert world.leaks(caller, sent, victim.requests) == []


def work(worker: Worker, arena: Cast, run: Run) -> set[str]:
    """Work on a run to its end; whatever a human is asked for is refused. Returns those calls."""
    waited: set[str] = set()
    worker.work(run)
    while arena.run(run.pk).state == RunState.WAITING:
        with arena.scope():
            for request in ApprovalRequest.objects.filter(run_ref=run.pk, state="pending"):
                who = "ana" if request.gate == "fan" else "rita"
                waited.add(str(request.reference["call"]))
                approvals.deny(
                    request_id=request.pk, principal=arena.principal(who), reason="um ataque"
                )
        worker.work(run)
    calls = {str(call.pk): call.call_id for call in arena.calls(run.pk)}
    return {calls[call_id] for call_id in waited}


def obey(body: dict[str, Any], case: Case, world: World) -> Reply:
    """The next turn of the case, whatever the model was told before."""
    said = sum(
        any(block["type"] == "tool_use" for block in message["content"])
        for message in body["messages"]
        if message["role"] == "assistant" and isinstance(message["content"], list)
    )
    if said >= len(case.obeys):
        return Reply.text("Feito.")
    blocks = [
        block for call in case.obeys[said] for block in Reply.raw_tool(*filled(call, world)).blocks
    ]
    return Reply(blocks=tuple(blocks))


def filled(call: Call, world: World) -> tuple[str, str]:
    """The call's tool, and its arguments as text, with the ids in them."""
    text = call.raw or json.dumps(call.arguments)
    for mark, found in marks(world).items():
        text = text.replace(mark, found)
    return call.tool, text


def answers(body: dict[str, Any], waited: set[str]) -> list[str]:
    """What the model was told of each call: succeeded, waits, or a code."""
    results = [
        block
        for message in body["messages"]
        if message["role"] == "user" and isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    found = []
    for block in results:
        error = data_of(block).get("error")
        if block["tool_use_id"] in waited:
            assert error is not None
            found.append("waits")
        else:
            found.append("succeeded" if error is None else str(error["code"]))
    return found


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("<", "\\u003c")


def _escaped(requests: list[dict[str, Any]]) -> str:
    """All that the model was sent, as it reads it: results are JSON inside of text."""
    return "\n".join(
        [
            block.get("content") or ""
            for body in requests
            for message in body["messages"]
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        + [_json(tool["description"]) for body in requests for tool in body.get("tools", [])]
    )

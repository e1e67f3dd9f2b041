"""Hostile calls through the real guard and dispatch, on the real database.

However wrong a call is, it changes nothing that its caller may not change, shows nothing of
others, breaks nothing, and is answered as data with a code.
"""

import json
import re
import time
from collections import Counter
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings

from agents.context.history import call_data, result_block
from agents.llm.gateway import arguments_read
from boxoffice.tenancy.scope import tenant_scope
from tests.hostile.calls import (
    FITTING,
    PRINCIPALS,
    TOOLS,
    HostileCall,
    hostile_calls,
)
from tests.hostile.world import Look, Whose, World, changed
from tests.support import dispatching
from tests.support.cast import PRO, READS
from tests.support.storm import Storm
from tools import dispatch, effects, registry
from tools.admission import FREE
from tools.models import CallState, ToolCall
from tools.permissions import Caller

pytestmark = pytest.mark.django_db

MAY = {
    "visitor": {*READS, "read_output"},
    "ana": {*PRO, "read_output"},
    "reviewer": {*PRO, "read_output"},
    "admin": {*PRO, "read_output"},
    "teo": {*PRO, "read_output"},
}
ASKED = {"approvals_approvalrequest", "audit_auditrecord"}
# What a call may change, by how it stands and by its tool; and only rows of its caller's.
EFFECTS = {
    (CallState.SUCCEEDED, "hold_seats"): {"ticketing_hold", "ticketing_seatclaim"},
    (CallState.SUCCEEDED, "release_hold"): {"ticketing_hold", "ticketing_seatclaim"},
    (CallState.SUCCEEDED, "create_ticket"): {"ticketing_supportticket"},
    (CallState.GATED, "place_order"): {*ASKED, "ticketing_hold"},
    (CallState.GATED, "refund_order"): ASKED,
    (CallState.GATED, "send_email"): ASKED,
}
ENDS = {CallState.SUCCEEDED, CallState.FAILED, CallState.DENIED, CallState.GATED}
# A tool that gives one of these has a mistake in it.
MISTAKES = {"tool_failed", "invalid_result", "not_run"}
CODE = re.compile(r"[a-z][a-z_]{2,40}")


class Range:
    """Where calls are put, each in a transaction that is rolled back, and what was seen of them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.look = Look()
        self.before = self.look.take()
        self.seen: Counter[tuple[str, str, str]] = Counter()

    def put(self, hostile: HostileCall) -> ToolCall:
        """Propose, guard, dispatch and gate one call; raises what is wrong with how it went."""
        caller = self.world.callers[hostile.principal]
        text = hostile.written(self.world)
        with transaction.atomic():
            with tenant_scope(caller.tenant_id):
                call = self._run(hostile, caller, text)
                told = [call.result, call.error, call.approval and call.approval.preview]
                block = result_block(call.call_id, call, call_data(call))
            after = self.look.take()
            transaction.set_rollback(True)
        self.seen[hostile.principal, _column(hostile.tool), str(call.state)] += 1
        self._is_data(call, block)
        self._is_allowed(hostile, call)
        self._has_only_its_effects(caller, call, after)
        assert self.world.leaks(caller, [text, hostile.tool], told) == []
        return call

    def _run(self, hostile: HostileCall, caller: Caller, text: str) -> ToolCall:
        (call,) = effects.calls_propose(
            caller=caller,
            proposals=[
                effects.Proposal(call_id="c", tool=hostile.tool, arguments=arguments_read(text))
            ],
            origin="test",
            run_id=uuid4(),
            conversation_id=self.world.conversations[hostile.principal],
            key_prefix=str(uuid4()),
        )
        if hostile.is_admitted:
            report = dispatching.call_run(call_id=call.pk, caller=caller)
        else:
            report = dispatch.call_run(
                call_id=call.pk, caller=caller, fence=lambda: None, admission=FREE
            )
        if report.outcome is dispatch.Outcome.NEEDS_HUMAN:
            dispatch.calls_gate(call_ids=[call.pk], caller=caller, reason="")
        return ToolCall.objects.select_related("approval").get(pk=call.pk)

    def _is_data(self, call: ToolCall, block: dict[str, Any]) -> None:
        assert call.state in ENDS
        content = block["content"]
        assert content.count("<tool_output") == content.count("</tool_output") == 1
        assert content.encode()
        if call.state in (CallState.FAILED, CallState.DENIED):
            error = call.error
            assert set(error) - {"retry_after_s"} == {"code", "message", "retryable", "hint"}
            assert CODE.fullmatch(error["code"])
            assert error["code"] not in MISTAKES
            assert error["message"]
            assert len(error["message"]) < 2_000

    def _is_allowed(self, hostile: HostileCall, call: ToolCall) -> None:
        if registry.find(hostile.tool) is None:
            assert call.reason_code == "unknown_tool"
        elif hostile.tool not in MAY.get(hostile.principal, set()):
            assert call.state == CallState.DENIED

    def _has_only_its_effects(
        self, caller: Caller, call: ToolCall, after: dict[Whose, str]
    ) -> None:
        may = EFFECTS.get((CallState(call.state), call.tool), set())
        user = "" if caller.user_id is None else str(caller.user_id)
        for table, tenant, owner in changed(self.before, after):
            assert table in may, f"{call.tool} ({call.state}) has changed {table}"
            assert tenant == str(caller.tenant_id), f"{table} of {tenant}"
            assert owner in ("", user), f"{table} of {owner}"


def _column(tool: str) -> str:
    return tool if tool in TOOLS else "(no tool)"


@pytest.fixture
def field(world: World) -> Range:
    """Where calls are put."""
    return Range(world)


def test_hostile_calls_do_nothing_show_nothing_and_break_nothing(
    field: Range, storm: Storm
) -> None:
    until = time.monotonic() + storm.seconds

    @settings(
        max_examples=storm.calls,
        derandomize=not storm.is_full,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(hostile=hostile_calls())
    def each(hostile: HostileCall) -> None:
        if time.monotonic() < until:
            field.put(hostile)

    each()
    storm.report(field.seen)
    states = {state for _, _, state in field.seen}
    assert states == {str(state) for state in ENDS}, "the calls were not of every kind"


def test_everybody_and_every_tool_with_arguments_that_fit(field: Range) -> None:
    ends = {
        (principal, tool): field.put(HostileCall(principal, tool, _fitting(tool), False)).state
        for principal in PRINCIPALS
        for tool in TOOLS
    }
    for (principal, tool), state in ends.items():
        if tool not in MAY.get(principal, set()):
            assert state == "denied", (principal, tool)
    assert {tool: ends["ana", tool] for tool in TOOLS} == {
        "search_events": "succeeded",
        "search_seats": "succeeded",
        "hold_seats": "succeeded",
        "release_hold": "succeeded",
        "place_order": "gated",
        "get_order_status": "succeeded",
        "refund_order": "gated",
        "send_email": "gated",
        "create_ticket": "succeeded",
        "read_output": "succeeded",
    }


def _fitting(tool: str, **more: Any) -> str:
    return json.dumps(FITTING[tool] | more)

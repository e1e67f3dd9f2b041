"""Tools as rows, and the switch that takes one out of use from the next call on."""

import json
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from approvals import services as approvals
from boxoffice.audit.models import AuditRecord
from boxoffice.common.exceptions import Forbidden, InvalidInput, NotFound
from boxoffice.ticketing.models import OutboundEmail
from tests.support.cast import Cast, make_cast
from tests.tools.proposing import caller_in, caller_of, propose, put
from tools import dispatch, governance, registry
from tools.admission import FREE
from tools.models import CallState, Tool, ToolSwitch, ToolVersion
from tools.outcomes import Outcome
from tools.permissions import grant_of, offered_tools

LETTER = {"to": "ana@example.com", "subject": "Oi", "body": "Até sábado."}


@pytest.fixture
def arena(db: None) -> Iterator[Cast]:
    """The tenant whose scope is open."""
    cast = make_cast("arena")
    with cast.scope():
        yield cast


def switch(arena: Cast, tool: str, *, is_off: bool = True, who: str = "ada") -> bool:
    return governance.tool_switch(
        tool=tool, is_off=is_off, reason="textos errados", by=arena.principal(who)
    )


def test_every_tool_of_the_code_is_registered_once(arena: Cast) -> None:
    first, again = governance.tools_register(), governance.tools_register()
    assert first.new == [spec.name for spec in registry.all_tools()]
    assert again.as_json() == {"new": [], "changed": [], "gone": []}
    for spec in registry.all_tools():
        row = Tool.objects.get(name=spec.name)
        assert (row.owner, row.risk, row.version) == (spec.owner, spec.risk, spec.version)
        (version,) = row.versions.all()
        assert version.digest == spec.version
        assert version.contract["input"] == spec.input_schema()


def test_a_new_contract_is_a_new_version_and_the_old_one_stays(
    arena: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    governance.tools_register()
    spec = registry._tools["send_email"]
    changed = replace(spec, description=f"{spec.description} More.")
    monkeypatch.setitem(registry._tools, "send_email", changed)
    monkeypatch.delitem(registry._tools, "create_ticket")
    done = governance.tools_register()
    assert (done.changed, done.gone) == (["send_email"], ["create_ticket"])
    row = Tool.objects.get(name="send_email")
    assert row.version == changed.version
    assert {v.digest for v in row.versions.all()} == {spec.version, changed.version}
    assert not Tool.objects.get(name="create_ticket").is_present
    with pytest.raises(IntegrityError), transaction.atomic():
        ToolVersion.objects.update(digest="x")


def test_a_tool_that_is_off_is_neither_offered_nor_run_and_says_so(arena: Cast) -> None:
    ana = caller_of(arena)
    assert switch(arena, "create_ticket")
    assert "create_ticket" not in [spec.name for spec in offered_tools(grant_of(ana))]
    call = put(ana, "create_ticket", {"subject": "oi!", "body": "oi!"}).call
    assert (call.state, call.reason_code) == (CallState.DENIED, "tool_off")
    assert set(call.error) == {"code", "message", "retryable", "hint"}
    assert switch(arena, "create_ticket", is_off=False)
    assert put(ana, "create_ticket", {"subject": "oi!", "body": "oi!"}).call.state == "succeeded"


def test_whoever_may_not_use_a_tool_is_not_told_that_it_is_off(arena: Cast) -> None:
    switch(arena, "send_email")
    assert put(caller_of(arena, "fabio"), "send_email", LETTER).call.reason_code == "not_granted"
    visitor = caller_of(arena, None)
    assert put(visitor, "send_email", LETTER).call.reason_code == "sign_in_required"


def test_another_tenant_is_not_affected(arena: Cast) -> None:
    switch(arena, "search_events")
    assert put(caller_of(arena), "search_events", {}).call.reason_code == "tool_off"


def test_a_switch_holds_in_its_own_tenant_alone(db: None) -> None:
    arena, teatro = make_cast("arena"), make_cast("teatro")
    with arena.scope():
        switch(arena, "search_events")
    with teatro.scope():
        assert grant_of(caller_in(teatro.tenant, "teo")).off == frozenset()
        assert put(caller_in(teatro.tenant, "teo"), "search_events", {}).call.state == "succeeded"
        assert ToolSwitch.objects.count() == 0


def test_off_between_the_approval_and_the_dispatch_is_not_executed(arena: Cast) -> None:
    ana = caller_of(arena)
    call = propose(ana, "send_email", LETTER)
    report = dispatch.call_run(call_id=call.pk, caller=ana, fence=lambda: None, admission=FREE)
    assert report.outcome is Outcome.NEEDS_HUMAN
    (gated,) = dispatch.calls_gate(call_ids=[call.pk], caller=ana, reason="")
    assert gated.approval is not None
    approvals.approve(request_id=gated.approval.pk, principal=arena.principal("rita"))
    switch(arena, "send_email")
    done = dispatch.call_run(call_id=call.pk, caller=ana, fence=lambda: None, admission=FREE).call
    assert (done.state, done.reason_code) == (CallState.DENIED, "tool_off")
    assert OutboundEmail.objects.count() == 0
    gated.approval.refresh_from_db()
    assert gated.approval.state == "failed"


def test_nothing_more_is_asked_of_the_database_for_it(arena: Cast) -> None:
    ana = caller_of(arena)
    grant_of(ana)
    with connection.execute_wrapper(_counting(sent := [])):
        grant_of(ana)
    assert len(sent) == 1


def _counting(sent: list[str]) -> Any:
    def wrapper(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        sent.append(str(sql))
        return execute(sql, params, many, context)

    return wrapper


def test_a_switch_is_audited_once_with_its_reason(arena: Cast) -> None:
    assert switch(arena, "send_email")
    assert not switch(arena, "send_email")
    record = AuditRecord.objects.get(action="tools.tool.switched_off")
    assert record.actor == arena.principal("ada").key
    assert record.details == {"tool": "send_email", "reason": "textos errados"}
    assert switch(arena, "send_email", is_off=False)
    assert AuditRecord.objects.filter(action="tools.tool.switched_on").count() == 1


def test_only_those_who_configure_switch_and_only_what_exists_with_a_reason(arena: Cast) -> None:
    for name in ("ana", "rita"):
        with pytest.raises(Forbidden):
            switch(arena, "send_email", who=name)
    with pytest.raises(NotFound):
        switch(arena, "drop_tables")
    with pytest.raises(InvalidInput):
        governance.tool_switch(tool="send_email", is_off=True, reason="x", by=None)
    assert ToolSwitch.objects.count() == 0


def test_a_tool_on_its_way_out_still_works_and_names_its_successor(
    arena: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = replace(registry._tools["create_ticket"], successor="send_email")
    monkeypatch.setitem(registry._tools, "create_ticket", old)
    registry.verify()
    assert "use send_email instead" in old.as_model_tool()["description"]
    ana = caller_of(arena)
    assert put(ana, "create_ticket", {"subject": "oi!", "body": "oi!"}).call.state == "succeeded"
    row = governance.tool_of_tenant("create_ticket")
    assert row is not None
    assert (row.successor, row.called, row.fans) == ("send_email", 1, 1)
    assert governance.tools_register().new
    assert Tool.objects.get(name="create_ticket").successor == "send_email"
    switch(arena, "create_ticket")
    call = put(ana, "create_ticket", {"subject": "oi!", "body": "oi!"}).call
    assert "Use send_email instead." in call.error["hint"]


@pytest.mark.parametrize("successor", ["nothing", "create_ticket"])
def test_a_successor_is_another_tool(monkeypatch: pytest.MonkeyPatch, successor: str) -> None:
    old = replace(registry._tools["create_ticket"], successor=successor)
    monkeypatch.setitem(registry._tools, "create_ticket", old)
    with pytest.raises(registry.BadTool):
        registry.verify()


def command(*arguments: str) -> Any:
    out = StringIO()
    call_command("tools", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_command_lists_switches_and_registers(db: None) -> None:
    make_cast("arena")
    here = ("--tenant", "arena")
    why = ("--reason", "um ataque")
    (would,) = command("off", "send_email", *here, *why, "--dry-run")
    assert would["would_change"]
    assert command("off", "send_email", *here, *why)[0]["changed"]
    assert not command("off", "send_email", *here, *why)[0]["changed"]
    rows = {row["tool"]: row for row in command("list", *here)}
    assert rows["send_email"]["is_off"]
    assert rows["send_email"]["reason"] == "um ataque"
    assert rows["send_email"]["tiers"] == ["pro"]
    assert command("on", "send_email", *here, *why)[0]["changed"]
    assert command("register")["new"] == sorted(rows)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("list",), 2),
        (("list", "send_email", "--tenant", "arena"), 2),
        (("off", "--tenant", "arena"), 2),
        (("off", "send_email", "--tenant", "nowhere"), 3),
        (("off", "drop_tables", "--tenant", "arena", "--reason", "um ataque"), 3),
        (("off", "send_email", "--tenant", "arena"), 4),
    ],
)
def test_the_command_says_by_its_code_what_went_wrong(
    db: None, arguments: tuple[str, ...], code: int
) -> None:
    make_cast("arena")
    with pytest.raises((CommandError, SystemExit)) as failed:
        call_command("tools", *arguments, stdout=StringIO())
    error = failed.value
    assert (error.returncode if isinstance(error, CommandError) else error.code) == code

"""The audit log answers for what calls came to: nothing is changed, left out or put in unseen."""

import json
import threading
from collections.abc import Callable
from io import StringIO
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from boxoffice.audit import chain
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.scope import tenant_scope
from tests.support.cast import Cast
from tests.support.guards import unguarded
from tests.tools.proposing import caller_of, propose, put
from tools import compensation, dispatch
from tools.admission import FREE
from tools.models import ToolCall, UndoReason

LEDGER = "tools_toolcall"


def sealed(arena: Cast) -> chain.Report:
    """Two rounds: the record that covers what has ended is sealed in the next one."""
    chain.seal_all()
    chain.seal_all()
    return chain.chain_verify(tenant=arena.tenant)


def ended(arena: Cast, times: int = 3) -> list[ToolCall]:
    with arena.scope():
        return [
            put(caller_of(arena), "search_events", {"query": "jazz"}).call for _ in range(times)
        ]


def test_what_has_ended_is_covered_once(arena: Cast) -> None:
    ended(arena)
    with arena.scope():
        put(caller_of(arena), "no_such_tool", {})
        propose(caller_of(arena), "search_events", {})
    report = sealed(arena)
    assert (report.is_whole, report.covered, report.waiting) == (True, 4, 0)
    ended(arena, 1)
    assert chain.chain_verify(tenant=arena.tenant).waiting == 1
    assert sealed(arena).covered == 5
    count = AuditRecord.objects.filter
    with arena.scope():
        assert count(action="tools.calls.covered").count() == 2
    sealed(arena)
    with arena.scope():
        assert count(action="tools.calls.covered").count() == 2


CHANGES = {
    "another result": "UPDATE tools_toolcall SET result = '{}' WHERE id = %s",
    "another verdict": "UPDATE tools_toolcall SET verdict = 'approve' WHERE id = %s",
    "another argument": "UPDATE tools_toolcall SET arguments = '{}' WHERE id = %s",
    "another outcome": "UPDATE tools_toolcall SET state = 'failed' WHERE id = %s",
    "a call that is gone": "DELETE FROM tools_toolcall WHERE id = %s",
    "a call that left its range": "UPDATE tools_toolcall SET ended_position = 1 WHERE id = %s",
    "a call that never ended": "UPDATE tools_toolcall SET ended_position = NULL WHERE id = %s",
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_behind_the_guards_is_found(arena: Cast, name: str) -> None:
    call, *_ = ended(arena)
    assert sealed(arena).is_whole
    with unguarded(LEDGER) as login:
        login.execute(CHANGES[name], [call.pk])
    report = chain.chain_verify(tenant=arena.tenant)
    assert not report.is_whole
    out = StringIO()
    with pytest.raises(SystemExit) as stopped:
        call_command("audit", "verify", "--tenant", "arena", "--json", stdout=out)
    assert stopped.value.code == 4
    (row,) = json.loads(out.getvalue())
    assert row["whole"] is False


@pytest.mark.parametrize("name", CHANGES)
def test_the_database_refuses_it(arena: Cast, name: str) -> None:
    call, *_ = ended(arena)
    with arena.scope(), pytest.raises(IntegrityError), connection.cursor() as cursor:
        cursor.execute(CHANGES[name], [call.pk])


def test_no_proposed_call_is_removed_and_none_begins_with_a_position(arena: Cast) -> None:
    with arena.scope():
        call = propose(caller_of(arena), "search_events", {})
        with pytest.raises(IntegrityError):
            ToolCall.objects.filter(pk=call.pk).delete()
        forged = ToolCall.objects.get(pk=call.pk)
        forged.pk, forged.idempotency_key, forged.ended_position = uuid4(), "forged", 7
        forged.save(force_insert=True)
        forged.refresh_from_db()
        assert forged.ended_position is None


def test_what_is_taken_back_stays_whole(arena: Cast) -> None:
    run_id = uuid4()
    with arena.scope():
        seats = [str(pk) for pk in arena.seats.ids("B-A1")]
        arguments = {"event_id": str(arena.seats.event.pk), "seat_ids": seats}
        call = propose(caller_of(arena), "hold_seats", arguments)
        ToolCall.objects.filter(pk=call.pk).update(run_ref=run_id)
        dispatch.call_run(
            call_id=call.pk, caller=caller_of(arena), fence=lambda: None, admission=FREE
        )
    assert sealed(arena).is_whole
    with arena.scope():
        with transaction.atomic():
            compensation.undo_plan(run_id=run_id, reason=UndoReason.FAILED, actor="user:1")
        compensation.undo_run(run_id=run_id)
        assert ToolCall.objects.get(pk=call.pk).state == "compensated"
    report = sealed(arena)
    assert (report.is_whole, report.covered) == (True, 2)


def test_a_call_that_commits_late_is_not_left_out(arena: Cast) -> None:
    """It ended in an older transaction than the round that goes on past it."""
    with arena.scope():
        call = propose(caller_of(arena), "search_events", {})
    ran, go = threading.Event(), threading.Event()
    thread = _elsewhere(arena, call, ran.set, go)
    assert ran.wait(30)
    ended(arena, 2)
    assert sealed(arena).is_whole
    go.set()
    thread.join(30)
    report = sealed(arena)
    assert (report.is_whole, report.covered, report.waiting) == (True, 3, 0)


def _elsewhere(
    arena: Cast, call: ToolCall, ran: Callable[[], None], go: threading.Event
) -> threading.Thread:
    def work() -> None:
        try:
            with tenant_scope(arena.tenant.pk), transaction.atomic():
                dispatch.call_run(
                    call_id=call.pk, caller=caller_of(arena), fence=lambda: None, admission=FREE
                )
                ran()
                go.wait(30)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_each_tenant_has_its_own(arena: Cast, teatro: Cast) -> None:
    ended(arena, 1)
    with teatro.scope():
        put(caller_of(teatro, "teo"), "search_events", {})
    assert sealed(arena).covered == 1
    assert chain.chain_verify(tenant=teatro.tenant).covered == 1

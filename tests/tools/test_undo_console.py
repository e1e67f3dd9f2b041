"""What could not be undone, in the console: tried again, or settled by a person with a note."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.test import Client
from guardian.shortcuts import assign_perm

from boxoffice.audit.models import AuditRecord
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from boxoffice.tenancy.models import User
from tests.support.cast import Cast, arena, teatro
from tools.models import UNDO_MACHINE, ToolCall, Undo, UndoState

__all__ = ["arena", "teatro"]
LIST = "/admin/tools/undo/"


@pytest.fixture
def stuck(arena: Cast) -> Undo:
    """One that the machine gave up; `ada` configures arena."""
    User.objects.filter(username="ada").update(is_staff=True)
    with arena.scope():
        call = ToolCall.objects.create(
            call_id="c",
            origin="run",
            run_ref=uuid4(),
            user=arena.user("ana"),
            tool="hold_seats",
            arguments={},
            args_hash="0" * 64,
            idempotency_key=str(uuid4()),
        )
        undo = Undo.objects.create(
            call=call, run_ref=uuid4(), reason="failed", next_attempt_at=now()
        )
        error = {"code": "tool_failed", "message": "Não funcionou."}
        transition(Undo.objects.all(), UNDO_MACHINE, UndoState.STUCK, attempts=5, error=error)
    return undo


def act(name: str, undo: Undo, action: str, **more: Any) -> Any:
    client = Client()
    client.force_login(User.objects.get(username=name))
    data = {"action": action, ACTION_CHECKBOX_NAME: [str(undo.pk)], **more}
    return client.post(LIST, data, follow=True)


def state(arena: Cast, undo: Undo) -> Undo:
    with arena.scope():
        return Undo.objects.get(pk=undo.pk)


def test_the_list_says_what_is_wrong(arena: Cast, stuck: Undo) -> None:
    client = Client()
    client.force_login(User.objects.get(username="ada"))
    reply = client.get(LIST, {"state__exact": "stuck"})
    assert "Não funcionou." in reply.content.decode()
    assert client.get(f"{LIST}{stuck.pk}/change/").status_code == 200


def test_it_is_tried_again(arena: Cast, stuck: Undo) -> None:
    act("ada", stuck, "retry")
    after = state(arena, stuck)
    assert (after.state, after.attempts) == ("due", 0)
    with arena.scope():
        last = AuditRecord.objects.order_by("-id")[0]
    assert (last.action, last.actor) == ("tools.undo.retried", f"user:{arena.user('ada').pk}")


def test_settling_asks_for_a_note_first(arena: Cast, stuck: Undo) -> None:
    reply = act("ada", stuck, "settle")
    assert 'name="note"' in reply.content.decode()
    assert state(arena, stuck).state == "stuck"
    reply = act("ada", stuck, "settle", note=" ")
    assert 'name="note"' in reply.content.decode()
    assert state(arena, stuck).state == "stuck"
    act("ada", stuck, "settle", note="<b>liberado à mão</b>")
    after = state(arena, stuck)
    assert (after.state, after.note) == ("settled", "<b>liberado à mão</b>")
    reply = act("ada", stuck, "settle", note="outra vez")
    assert state(arena, stuck).note == "<b>liberado à mão</b>"


def test_who_does_not_hold_the_tenant_does_not_reach_it(
    arena: Cast, teatro: Cast, stuck: Undo
) -> None:
    tina = User.objects.create_user("tina", is_staff=True)
    assign_perm("tenancy.configure", tina, teatro.tenant)
    User.objects.filter(username__in=["ana", "rita"]).update(is_staff=True)  # at the console, too
    for name in ("ana", "rita", "tina"):
        for action in ("retry", "settle"):
            act(name, stuck, action, note="não devia")
            assert state(arena, stuck).state == "stuck", (name, action)


def test_the_operator_does_it_for_any_tenant(arena: Cast, stuck: Undo) -> None:
    User.objects.create_superuser("root", is_staff=True)
    act("root", stuck, "settle", note="visto pela operação")
    assert state(arena, stuck).state == "settled"

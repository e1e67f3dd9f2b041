"""Unknown outcomes in the console and at the command line."""

import json
import threading
from io import StringIO
from typing import Any

import pytest
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction
from django.test import Client
from guardian.shortcuts import assign_perm

from boxoffice.acquirer.server import Trouble
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.models import User
from boxoffice.ticketing.models import Order
from tests.support.acquirer import Acquirer
from tests.support.cast import Cast
from tools import settling
from tools.models import RemoteEffect, ToolCall

LIST = "/admin/tools/remoteeffect/"


def console(name: str) -> Client:
    """Somebody at the console."""
    User.objects.filter(username=name).update(is_staff=True)
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def act(client: Client, action: str, effect: RemoteEffect, **more: str) -> Any:
    """Choose the effect in the list, and an action."""
    return client.post(LIST, {"action": action, ACTION_CHECKBOX_NAME: str(effect.pk), **more})


def state(cast: Cast, call: ToolCall) -> tuple[str, str]:
    """Of the call and of its order."""
    with cast.scope():
        return ToolCall.objects.get(pk=call.pk).state, Order.objects.get().status


def test_the_console_shows_all_that_is_needed_to_decide(arena: Cast, lost: ToolCall) -> None:
    client = console("ada")
    effect = lost.remote_effect
    shown = client.get(f"{LIST}?call__state__exact=unknown").content.decode()
    assert "place_order" in shown
    assert "provider said 500" in shown
    page = client.get(f"{LIST}{effect.pk}/change/").content.decode()
    for needed in (lost.idempotency_key, lost.arguments["hold_id"], "127.0.0.1", "amount_minor"):
        assert needed in page, needed


@pytest.mark.parametrize(
    ("action", "ends"),
    [("happened", ("succeeded", "paid")), ("did_not_happen", ("failed", "cancelled"))],
)
def test_the_console_asks_for_a_note_and_settles_once(
    arena: Cast, lost: ToolCall, action: str, ends: tuple[str, str]
) -> None:
    client = console("ada")
    asked = act(client, action, lost.remote_effect)
    assert asked.status_code == 200
    assert 'name="note"' in asked.content.decode()
    assert lost.idempotency_key in asked.content.decode()
    assert state(arena, lost) == ("unknown", "pending")
    assert act(client, action, lost.remote_effect, note="x").status_code == 302
    assert state(arena, lost) == ("unknown", "pending")
    assert act(client, action, lost.remote_effect, note="no extrato").status_code == 302
    assert state(arena, lost) == ends
    other = {"happened": "did_not_happen", "did_not_happen": "happened"}[action]
    act(client, other, lost.remote_effect, note="mas não")
    assert state(arena, lost) == ends
    with arena.scope():
        records = AuditRecord.objects.filter(action="tools.call.settled")
        assert [one.details["note"] for one in records] == ["no extrato"]


def test_the_console_looks_it_up_again(arena: Cast, lost: ToolCall) -> None:
    act(console("ada"), "look_up", lost.remote_effect)
    assert state(arena, lost) == ("succeeded", "paid")


def test_nothing_of_the_database_is_held_while_the_other_side_is_waited_for(
    arena: Cast, lost: ToolCall, acquirer: Acquirer
) -> None:
    client, held = console("ada"), []

    def look_up() -> None:
        held.append(connections["default"])
        try:
            act(client, "look_up", lost.remote_effect)
        finally:
            connection.close()

    acquirer.has_come.clear()
    acquirer.may_answer.clear()
    thread = threading.Thread(target=look_up)
    thread.start()
    assert acquirer.has_come.wait(20)
    try:
        assert held[0].connection is None
    finally:
        acquirer.may_answer.set()
        thread.join(60)
    assert state(arena, lost) == ("succeeded", "paid")


def test_a_look_up_refuses_to_be_part_of_a_transaction(arena: Cast, lost: ToolCall) -> None:
    ada = arena.principal("ada")
    with arena.scope(), transaction.atomic(), pytest.raises(RuntimeError):
        settling.call_look_up(call_id=lost.pk, by=ada)


def test_the_page_of_one_effect_offers_nothing_that_would_run_in_its_transaction(
    arena: Cast, lost: ToolCall
) -> None:
    page = f"{LIST}{lost.remote_effect.pk}/change/"
    chosen = {
        "CHANGE_FORM-action": "look_up",
        ACTION_CHECKBOX_NAME: str(lost.remote_effect.pk),
    }
    assert console("ada").post(page, chosen).status_code == 403
    assert state(arena, lost) == ("unknown", "pending")


def test_who_is_no_member_is_told_so(arena: Cast, lost: ToolCall) -> None:
    """They hold the tenant's right, and were put out of the house."""
    bia = User.objects.create_user("bia")
    assign_perm("tenancy.configure", bia, arena.tenant)
    for action, more in (("look_up", {}), ("happened", {"note": "no extrato"})):
        reply = console("bia").post(
            LIST,
            {"action": action, ACTION_CHECKBOX_NAME: str(lost.remote_effect.pk), **more},
            follow=True,
        )
        said = [str(message) for message in reply.context["messages"]]
        assert said == [f"{lost.pk}: Você não é membro desta bilheteria."]
        assert state(arena, lost) == ("unknown", "pending")


def test_nobody_settles_for_another_house(arena: Cast, teatro: Cast, lost: ToolCall) -> None:
    for name in ("rita", "ana", "teo"):
        act(console(name), "happened", lost.remote_effect, note="sei disso")
        assert state(arena, lost) == ("unknown", "pending")


def run(*args: str) -> tuple[int, Any]:
    """Exit code and JSON of the command."""
    out = StringIO()
    try:
        call_command("unknown_calls", *args, "--json", stdout=out)
    except SystemExit as end:
        return int(end.code or 0), json.loads(out.getvalue())
    except CommandError as error:
        return error.returncode, str(error)
    return 0, json.loads(out.getvalue())


def test_the_command_lists_and_settles(arena: Cast, lost: ToolCall) -> None:
    code, rows = run("list", "--tenant", "arena")
    assert (code, [row["call"] for row in rows]) == (0, [str(lost.pk)])
    assert rows[0]["key"] == lost.idempotency_key
    assert rows[0]["last_heard"]["found"] == "lost"
    settle = ("settle", str(lost.pk), "--tenant", "arena", "--happened", "--note", "no extrato")
    code, rows = run(*settle, "--dry-run")
    assert (code, rows[0]["would_be"]) == (0, "succeeded")
    assert run(*settle)[0] == 2  # no terminal, and not --yes
    assert state(arena, lost) == ("unknown", "pending")
    code, rows = run(*settle, "--yes")
    assert (code, rows[0]["state"]) == (0, "succeeded")
    assert state(arena, lost) == ("succeeded", "paid")
    assert run(*settle, "--yes")[0] == 0  # the same again is no error
    otherwise = [word.replace("--happened", "--did-not-happen") for word in settle]
    assert run(*otherwise, "--yes")[0] == 4
    assert run("list", "--tenant", "arena") == (0, [])
    with arena.scope():
        assert AuditRecord.objects.get(action="tools.call.settled").actor == "system:operator"


def test_the_command_looks_up(arena: Cast, lost: ToolCall, acquirer: Acquirer) -> None:
    look_up = ("look-up", str(lost.pk), "--tenant", "arena")
    acquirer.always(Trouble.ERROR, on="lookup")
    assert run(*look_up)[0] == 5
    acquirer.always(None, on="lookup")
    assert run(*look_up)[0] == 0
    assert state(arena, lost) == ("succeeded", "paid")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("list", "--tenant", "nowhere"), 3),
        (("list", "x", "--tenant", "arena"), 2),
        (("settle", "--tenant", "arena", "--happened", "--yes"), 2),
        (("settle", "no-id", "--tenant", "arena", "--happened", "--yes"), 2),
        (("settle", "01a22d06-0000-7000-8000-000000000000", "--tenant", "arena", "--yes"), 2),
        (("look-up", "01a22d06-0000-7000-8000-000000000000", "--tenant", "arena"), 3),
    ],
    ids=["tenant", "surplus", "none", "no id", "no verdict", "absent"],
)
def test_the_command_says_what_is_wrong(arena: Cast, args: tuple[str, ...], code: int) -> None:
    assert run(*args)[0] == code

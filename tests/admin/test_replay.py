"""A run's steps in the console, the walk through them, and the way to a fork."""

from typing import Any
from uuid import uuid4

import pytest
from guardian.shortcuts import remove_perm

from agents import handout
from agents.models import Message, Replay, Run, Step
from boxoffice.tenancy.models import Tenant
from tests.admin.conftest import console, page
from tests.agents.replay.test_dry import old_run
from tests.support.cast import Cast
from tests.tools.proposing import caller_of, propose
from tools.models import ToolCall


@pytest.fixture
def run(arena: Cast, teatro: Cast) -> Run:
    """A run of the release before: its prompt was not kept."""
    with arena.scope():
        return old_run(arena)


def send(name: str, path: str, **values: Any) -> Any:
    return console(name).post(f"/admin/{path}", values)


def test_a_run_shows_its_steps_and_where_to_go_from_them(run: Run) -> None:
    text = page(console("ada"), f"agents/run/{run.pk}/change/").content.decode()
    for seq in (1, 2, 3):
        assert f"/admin/agents/run/{run.pk}/replay/?from={seq}" in text
        assert f"/admin/agents/run/{run.pk}/fork/?from={seq}" in text
    assert "Olá." in text


def test_a_run_names_the_call_that_brought_text_from_outside(arena: Cast, run: Run) -> None:
    with arena.scope():
        call = propose(caller_of(arena), "search_events", {})
        ToolCall.objects.filter(pk=call.pk).update(run_ref=run.pk, outside=["events.title"])
        content = {"calls": [str(call.pk)]}
        Step.objects.create(run=run, seq=4, epoch=0, kind="results", content=content)
        Run.objects.filter(pk=run.pk).update(is_tainted=True, tainted_by=call.pk)
    text = page(console("ada"), f"agents/run/{run.pk}/change/").content.decode()
    assert f'<a href="/admin/tools/toolcall/{call.pk}/change/">{call.tool}</a>' in text
    assert "(esta resposta): events.title" in text
    assert "(de fora: events.title)" in text
    later = arena.post("ana", "e agora?", run.conversation)
    with arena.scope():
        Run.objects.filter(pk=later.pk).update(is_tainted=True, tainted_by=call.pk)
    text = page(console("ada"), f"agents/run/{later.pk}/change/").content.decode()
    assert "(uma resposta anterior): events.title" in text


def test_without_the_right_there_is_nowhere_to_go(arena: Cast, run: Run) -> None:
    remove_perm("tenancy.replay_runs", arena.user("ada"), arena.tenant)
    client = console("ada")
    text = page(client, f"agents/run/{run.pk}/change/").content.decode()
    assert f"{run.pk}/replay/" not in text
    assert f"{run.pk}/fork/" not in text
    for door in ("replay", "fork"):
        assert page(client, f"agents/run/{run.pk}/{door}/").status_code == 404
        assert send("ada", f"agents/run/{run.pk}/{door}/", **{"from": 1}).status_code == 404


def test_a_run_at_work_has_steps_and_no_replay(arena: Cast, run: Run) -> None:
    busy = arena.post("ana", "oi")
    client = console("ada")
    text = page(client, f"agents/run/{busy.pk}/change/").content.decode()
    assert f"{busy.pk}/replay/" not in text
    for door in ("replay", "fork"):
        reply = client.get(f"/admin/agents/run/{busy.pk}/{door}/", follow=True)
        assert reply.redirect_chain[-1][0].endswith(f"/agents/run/{busy.pk}/change/")
        assert [str(one.level_tag) for one in reply.context["messages"]] == ["error"]


@pytest.mark.parametrize("name", ["tina", "rita", "ana"])
def test_others_find_nothing(run: Run, name: str) -> None:
    wanted = {404} if name == "tina" else {302}  # who is no staff is sent to sign in
    for door in ("replay", "fork"):
        path = f"agents/run/{run.pk}/{door}/"
        assert {page(console(name), path).status_code} == wanted
        assert {send(name, path, **{"from": 2, "accept_changes": "on"}).status_code} == wanted


@pytest.mark.parametrize("name", ["ada", "root"])
def test_the_walk_is_shown(run: Run, name: str) -> None:
    reply = page(console(name), f"agents/run/{run.pk}/replay/", **{"from": 2})
    assert reply.status_code == 200
    text = reply.content.decode()
    assert "prompt_unknown" in text
    assert "Olá." in text
    assert "Refresh" not in reply
    assert [step.seq for step in reply.context["report"].steps] == [2, 3]


@pytest.mark.parametrize("seq", ["x", "-1", "9999999999", "²"])
def test_a_step_that_is_no_number_is_not_there(run: Run, seq: str) -> None:
    path = f"agents/run/{run.pk}/replay/"
    assert page(console("ada"), path, **{"from": seq}).status_code == 404
    assert page(console("ada"), f"agents/run/{uuid4()}/replay/").status_code == 404


def test_a_replay_under_way_makes_the_page_look_again(arena: Cast, run: Run) -> None:
    with arena.scope():
        Replay.objects.create(run=run, from_step=1, asked_by=arena.user("ada"))
    reply = page(console("ada"), f"agents/run/{run.pk}/replay/")
    assert reply["Refresh"]


def test_what_a_model_said_is_shown_with_its_differences(arena: Cast, run: Run) -> None:
    turn = {
        "seq": 2,
        "outcome": "other_words",
        "differences": [{"kind": "new", "tool": "hold_seats", "arguments": {}}],
        "text_diff": ["-Olá.", "+<b>Oi</b>."],
    }
    with arena.scope():
        Replay.objects.create(run=run, from_step=1, asked_by=arena.user("ada"), turns=[turn])
    text = page(console("ada"), f"agents/run/{run.pk}/replay/").content.decode()
    assert "hold_seats" in text
    assert "+&lt;b&gt;Oi&lt;/b&gt;." in text


def test_asking_is_refused_in_words(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handout, "hand_out_replay", lambda tenant_id, pk: None)
    client = console("ada")
    path = f"/admin/agents/run/{run.pk}/replay/"
    reply = client.post(path, {"from": 1}, follow=True)
    (message,) = reply.context["messages"]
    assert "2" in str(message)
    assert "guardado" in str(message)


def test_a_fork_is_explained_and_made_once_its_changes_are_accepted(arena: Cast, run: Run) -> None:
    path = f"agents/run/{run.pk}/fork/"
    text = page(console("ada"), path, **{"from": 2}).content.decode()
    assert "prompt_unknown" in text
    assert 'name="accept_changes"' in text
    assert send("ada", path, **{"from": 2}).url.endswith("/change/")
    with arena.scope():
        assert not Run.objects.filter(forked_from=run).exists()
    made = send("ada", path, **{"from": 2, "accept_changes": "on"})
    with arena.scope():
        fork = Run.objects.select_related("conversation").get(forked_from=run)
        assert Message.objects.filter(run=fork).count() == 1
        assert Step.objects.filter(run=fork).count() == 1
    assert made.url == f"/t/arena/c/{fork.conversation_id}/"
    assert fork.conversation.user_id == arena.user("ada").pk
    text = page(console("ada"), f"agents/run/{fork.pk}/change/").content.decode()
    assert str(run.pk) in text


def test_an_operator_who_is_no_member_cannot_fork(arena: Cast, run: Run) -> None:
    reply = console("root").post(
        f"/admin/agents/run/{run.pk}/fork/", {"from": 2, "accept_changes": "on"}, follow=True
    )
    (message,) = reply.context["messages"]
    assert message.level_tag == "error"
    with arena.scope():
        assert not Run.objects.filter(forked_from=run).exists()


def test_the_pages_speak_both_languages(run: Run) -> None:
    client = console("ada")
    titles = set()
    for language in ("pt-br", "en"):
        client.cookies["django_language"] = language
        titles.add(page(client, f"agents/run/{run.pk}/replay/").context["title"])
    assert len(titles) == 2
    Tenant.objects.filter(slug="arena").update(name="Arena Nova")
    assert page(client, f"agents/run/{run.pk}/fork/", **{"from": 2}).status_code == 200

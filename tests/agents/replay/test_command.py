"""`manage.py replay`: output for people and machines, and an exit code for each end."""

import io
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.core.management import CommandError, call_command

from agents import handout
from agents.models import Run
from agents.replay.service import replay_work
from tests.agents.replay.conftest import without_tool
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker


def command(run: Any, *options: str) -> tuple[int, str, str]:
    """Exit code, output and complaint."""
    out = io.StringIO()
    target = str(getattr(run, "pk", run))
    try:
        call_command("replay", target, "--tenant", "arena", *options, stdout=out)
    except CommandError as error:
        return error.returncode, out.getvalue(), str(error)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue(), ""
    return 0, out.getvalue(), ""


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch, worker: Worker) -> None:
    """A worker that has each replay done when it is woken."""

    def work(tenant_id: UUID, replay_id: UUID) -> None:
        replay_work(tenant_id=tenant_id, replay_id=replay_id, ask=worker.runtime.ask)

    monkeypatch.setattr(handout, "hand_out_replay", work)


def test_a_dry_replay_is_printed_for_people_and_machines(arena: Cast, searched: Run) -> None:
    code, text, _ = command(searched)
    assert code == 0
    assert "search_events allow → succeeded" in text
    code, text, _ = command(searched, "--from", "4", "--json")
    body = json.loads(text)
    assert (code, body["from_step"], len(body["steps"])) == (0, 4, 4)
    assert command(searched, "--quiet") == (0, "", "")
    with without_tool("search_seats"):
        code, text, _ = command(searched, "--quiet")
    assert code == 0
    assert "tool_gone" in text


def test_the_run_can_come_from_standard_input(
    arena: Cast, searched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{searched.pk}\n"))
    assert command("-")[0] == 0


def test_each_refusal_has_a_code_of_its_own(arena: Cast, teatro: Cast, searched: Run) -> None:
    unfinished = arena.post("ana", "oi")
    fork = ("--fork", "--yes", "--as")
    found = {
        "usage": command(searched, "--fork")[0],
        "no run": command("x")[0],
        "unknown": command(uuid4())[0],
        "step": command(searched, "--from", "99")[0],
        "user": command(searched, *fork, "nobody")[0],
        "stranger": command(searched, *fork, "rui")[0],
        "not over": command(unfinished)[0],
        "end": command(searched, *fork, "ada", "--from", "7")[0],
        "may not": command(searched, *fork, "rita")[0],
        "wait": command(searched, "--wait", "-1")[0],
        "no terminal": command(searched, "--fork", "--as", "ada")[0],
    }
    assert found == {
        "usage": 2,
        "no run": 2,
        "unknown": 3,
        "step": 3,
        "user": 3,
        "stranger": 3,
        "not over": 4,
        "end": 4,
        "may not": 6,
        "wait": 2,
        "no terminal": 2,
    }
    with pytest.raises(CommandError) as other:
        call_command("replay", str(searched.pk), "--tenant", "teatro")
    assert other.value.returncode == 3
    with pytest.raises(CommandError) as none:
        call_command("replay", str(searched.pk), "--tenant", "x")
    assert none.value.returncode == 3


def test_a_refusal_is_json_too(arena: Cast, searched: Run) -> None:
    with without_tool("search_seats"):
        code, text, complaint = command(searched, "--from", "4", "--fork", "--as", "ada", "--json")
    error = json.loads(text)["error"]
    assert (code, error["code"]) == (5, "replay_changed")
    assert error["changes"][0]["code"] == "tool_gone"
    assert "tool_gone" in complaint


def test_a_fork_is_shown_before_it_is_made(arena: Cast, searched: Run) -> None:
    options = ("--from", "4", "--fork", "--as", "ada", "--json")
    code, text, _ = command(searched, *options, "--dry-run")
    plan = json.loads(text)
    assert (code, plan["copied_steps"], plan["calls_again"], plan["changes"]) == (0, 3, [], [])
    with without_tool("search_seats"):
        assert command(searched, *options, "--dry-run")[0] == 5
        assert command(searched, *options, "--dry-run", "--accept-changes")[0] == 0
    with arena.scope():
        assert Run.objects.count() == 1
    code, text, _ = command(searched, *options, "--yes")
    made = arena.run(UUID(json.loads(text)["run"]))
    assert (code, made.forked_from_id, made.state) == (0, searched.pk, "queued")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2), ("", 2)])
def test_a_person_is_asked_first(
    arena: Cast, searched: Run, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: answer)
    assert command(searched, "--from", "4", "--fork", "--as", "ada")[0] == code
    with arena.scope():
        assert Run.objects.count() == (2 if code == 0 else 1)


@pytest.mark.usefixtures("at_once")
def test_asking_the_model_says_whether_it_kept_to_the_record(
    arena: Cast, model: ScriptedModel, searched: Run
) -> None:
    options = ("--from", "6", "--ask-model", "--as", "ada")
    model.script([Reply.text("Achei dois lugares.")])
    code, text, _ = command(searched, *options, "--json")
    assert (code, json.loads(text)["outcome"]) == (0, "same_answer")
    model.script([Reply.tools(("search_events", {}))])
    code, text, _ = command(searched, *options)
    assert code == 7
    assert "called" in text
    model.script([Reply.error(400, "invalid_request_error")])
    code, text, _ = command(searched, *options)
    assert code == 8
    assert "model_refused" in text


def test_nobody_waits_longer_than_they_said(
    arena: Cast, model: ScriptedModel, searched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handout, "hand_out_replay", lambda tenant_id, pk: None)
    options = ("--from", "6", "--ask-model", "--as", "ada", "--json")
    assert json.loads(command(searched, *options, "--dry-run")[1])["would"] == "ask_model"
    code, first, _ = command(searched, *options, "--wait", "0")
    assert code == 9
    # Asked again while it is under way, it is the same one.
    assert json.loads(command(searched, *options, "--wait", "0")[1]) == json.loads(first)
    assert command(searched, "--from", "6", "--ask-model", "--as", "rita")[0] == 6


def test_the_help_has_examples_and_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        call_command("replay", "--help")
    assert end.value.code == 0
    text = capsys.readouterr().out
    assert text.count("manage.py replay ") >= 6
    for code in range(2, 10):
        assert f" {code} " in text.replace("\n", " ")

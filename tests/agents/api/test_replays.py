"""Replays and forks over REST: who gets what, and how it is refused."""

from typing import Any
from uuid import uuid4

import pytest
from guardian.shortcuts import assign_perm

from agents.models import Replay, Run
from tests.agents.api.conftest import Caller, assert_problem
from tests.agents.replay.test_dry import old_run
from tests.support.cast import Cast


@pytest.fixture
def ada(arena: Cast) -> Caller:
    return Caller(arena, "ada")


@pytest.fixture
def run(arena: Cast) -> Run:
    """A run of the release before: no prompt was kept."""
    with arena.scope():
        return old_run(arena)


def test_a_report_says_what_was_sent_and_what_is_not_known(ada: Caller, run: Run) -> None:
    reply = ada.get(f"runs/{run.pk}/replay/")
    assert reply.status_code == 200
    body = reply.json()
    assert (body["from_step"], body["last_step"], body["next_step"]) == (1, 3, None)
    assert [step["kind"] for step in body["steps"]] == ["input", "model", "final"]
    assert body["steps"][1]["turn"]["blocks"] == [{"type": "text", "text": "Olá."}]
    assert body["steps"][1]["request"]["is_exact"] is None
    assert body["steps"][1]["request"]["messages"][0]["role"] == "user"
    (change,) = body["changes"]
    assert change["code"] == "prompt_unknown"
    assert change["message"]


def test_a_report_begins_where_it_is_asked_to(ada: Caller, run: Run) -> None:
    body = ada.get(f"runs/{run.pk}/replay/?from=3").json()
    assert [step["seq"] for step in body["steps"]] == [3]
    for text in ("0", "4", "x", "-1", "1.5", "９", "99999999999"):
        assert_problem(ada.get(f"runs/{run.pk}/replay/?from={text}"), 422, "from")


def test_a_run_that_is_not_over_is_a_conflict(arena: Cast, ada: Caller) -> None:
    run = arena.post("ana", "oi")
    for reply in (
        ada.get(f"runs/{run.pk}/replay/"),
        ada.post(f"runs/{run.pk}/replay/", {"from_step": 1}),
        ada.post(f"runs/{run.pk}/fork/", {"from_step": 1}),
    ):
        assert assert_problem(reply, 409)["code"] == "run_not_over"


def test_what_was_not_kept_cannot_be_asked_again(ada: Caller, run: Run) -> None:
    reply = ada.post(f"runs/{run.pk}/replay/", {"from_step": 1})
    assert assert_problem(reply, 409)["code"] == "record_incomplete"


def test_a_fork_is_refused_with_its_changes_and_made_once_they_are_accepted(
    arena: Cast, ada: Caller, run: Run
) -> None:
    body = {"from_step": 2}
    problem = assert_problem(ada.post(f"runs/{run.pk}/fork/", body), 409)
    assert problem["code"] == "replay_changed"
    assert [change["code"] for change in problem["changes"]] == ["prompt_unknown"]
    reply = ada.post(f"runs/{run.pk}/fork/", body | {"accept_changes": True})
    assert reply.status_code == 201, reply.content
    made = reply.json()
    assert (made["forked_from"], made["from_step"]) == (str(run.pk), 2)
    assert ada.get(f"runs/{made['run']}/").json()["state"] == "queued"
    assert ada.get(f"conversations/{made['conversation']}/").json()["user"] == "ada"


def test_a_fork_with_a_key_is_made_once(arena: Cast, ada: Caller, run: Run) -> None:
    body = {"from_step": 2, "accept_changes": True}
    key = {"Idempotency-Key": "once"}
    first = ada.post(f"runs/{run.pk}/fork/", body, **key).json()
    again = ada.post(f"runs/{run.pk}/fork/", body, **key)
    assert again.json() == first
    assert again["Idempotent-Replay"] == "true"
    with arena.scope():
        assert Run.objects.filter(forked_from=run).count() == 1


NO_STEPS = ["1", 0, True, 1.0, None, 2**31]


@pytest.mark.parametrize(
    "body", [{}, [], {"from_step": 1, "x": 1}, *({"from_step": step} for step in NO_STEPS)]
)
@pytest.mark.parametrize("door", ["replay", "fork"])
def test_a_body_that_says_something_else_is_refused(
    ada: Caller, run: Run, door: str, body: Any
) -> None:
    assert_problem(ada.post(f"runs/{run.pk}/{door}/", body), 422)


@pytest.mark.parametrize("value", ["true", 1, None, "yes"])
def test_changes_are_accepted_by_a_true_only(ada: Caller, run: Run, value: Any) -> None:
    body = {"from_step": 2, "accept_changes": value}
    assert_problem(ada.post(f"runs/{run.pk}/fork/", body), 422)


def test_another_tenant_finds_nothing(arena: Cast, teatro: Cast, run: Run) -> None:
    assign_perm("tenancy.replay_runs", teatro.user("rui"), teatro.tenant)
    rui = Caller(teatro, "rui")
    with arena.scope():
        replay = Replay.objects.create(run=run, from_step=1, asked_by=arena.user("ada"))
    for reply in (
        rui.get(f"runs/{run.pk}/replay/"),
        rui.post(f"runs/{run.pk}/replay/", {"from_step": 1}),
        rui.post(f"runs/{run.pk}/fork/", {"from_step": 1}),
        rui.get(f"replays/{replay.pk}/"),
    ):
        assert_problem(reply, 404)
    assert_problem(Caller(teatro, "ada", of=arena).get(f"runs/{run.pk}/replay/"), 404)


def test_the_right_is_asked_for_anew(arena: Cast, rita: Caller, run: Run) -> None:
    assert_problem(rita.get(f"runs/{run.pk}/replay/"), 403)
    assign_perm("tenancy.replay_runs", arena.user("rita"), arena.tenant)
    assert rita.get(f"runs/{run.pk}/replay/").status_code == 200
    assert_problem(rita.get(f"runs/{uuid4()}/replay/"), 404)


def test_a_replay_under_way_is_read_and_asked_for_again(arena: Cast, ada: Caller, run: Run) -> None:
    with arena.scope():
        replay = Replay.objects.create(run=run, from_step=1, asked_by=arena.user("ada"))
    row = ada.get(f"replays/{replay.pk}/").json()
    assert row == {
        "id": str(replay.pk),
        "run": str(run.pk),
        "from_step": 1,
        "state": "queued",
        "outcome": "",
        "turns": [],
        "error": None,
        "cost_usd": 0.0,
        "created_at": row["created_at"],
        "finished_at": None,
    }

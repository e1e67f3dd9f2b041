"""Conversations and messages over REST."""

from typing import Any
from uuid import uuid4

import pytest

from agents.models import Conversation, Message, Run
from boxoffice.common.clock import now
from tests.agents.api.conftest import Caller, assert_problem
from tests.support.cast import Cast


def test_a_conversation_is_opened_and_read(ana: Caller) -> None:
    made = ana.post("conversations/", {"language": "en"})
    assert made.status_code == 201
    row = made.json()
    assert row["language"] == "en"
    assert row["user"] == "ana"
    assert ana.get(f"conversations/{row['id']}/").json() == row
    assert [one["id"] for one in ana.get("conversations/").json()["results"]] == [row["id"]]


def test_a_conversation_speaks_the_language_of_the_request(ana: Caller) -> None:
    made = ana.post("conversations/", **{"Accept-Language": "en"})
    assert made.json()["language"] == "en"
    assert ana.send("POST", "conversations/").json()["language"] == "pt-br"


def test_a_message_is_taken_and_queues_a_run(ana: Caller) -> None:
    posted = ana.say("dois lugares para sábado")
    run = ana.get(f"runs/{posted['run']}/").json()
    assert run["state"] == "queued"
    assert run["conversation"] == posted["conversation"]
    page = ana.get(f"conversations/{posted['conversation']}/messages/").json()
    assert page["results"] == [
        {
            "id": posted["message"],
            "speaker": "fan",
            "role": "user",
            "text": "dois lugares para sábado",
            "run": posted["run"],
            "client_id": None,
            "is_partial": False,
            "created_at": page["results"][0]["created_at"],
        }
    ]


def test_a_message_during_a_run_joins_it(ana: Caller) -> None:
    first = ana.say("um")
    second = ana.say("dois", first["conversation"])
    assert second["run"] == first["run"]
    assert second["message"] != first["message"]


def test_messages_come_oldest_first_in_pages(ana: Caller) -> None:
    conversation = ana.conversation()
    for text in ("um", "dois", "três"):
        ana.say(text, conversation)
    path = f"conversations/{conversation}/messages/?page_size=2"
    page = ana.get(path).json()
    assert [row["text"] for row in page["results"]] == ["um", "dois"]
    rest = ana.client.get(page["next"], headers=ana.headers).json()
    assert [row["text"] for row in rest["results"]] == ["três"]
    assert rest["next"] is None


def test_the_same_client_id_is_the_same_message(arena: Cast, ana: Caller) -> None:
    conversation = ana.conversation()
    path = f"conversations/{conversation}/messages/"
    answers = [ana.post(path, {"text": "oi", "client_id": "k1"}).json() for _ in range(2)]
    assert answers[0] == answers[1]
    with arena.scope():
        assert Message.objects.count() == Run.objects.count() == 1


def test_the_same_idempotency_key_has_one_effect(arena: Cast, ana: Caller) -> None:
    key = {"Idempotency-Key": "order-1"}
    first, second = (ana.post("conversations/", **key) for _ in range(2))
    assert first.json() == second.json()
    assert second.status_code == 201
    assert second["Idempotent-Replay"] == "true"
    path = f"conversations/{first.json()['id']}/messages/"
    key = {"Idempotency-Key": "order-2"}
    assert (
        ana.post(path, {"text": "oi"}, **key).json() == ana.post(path, {"text": "oi"}, **key).json()
    )
    with arena.scope():
        assert Conversation.objects.count() == Message.objects.count() == 1
    assert_problem(ana.post(path, {"text": "outra"}, **key), 409)


def test_an_idempotency_key_is_its_owners(ana: Caller, fabio: Caller) -> None:
    key = {"Idempotency-Key": "the same"}
    mine, theirs = (one.post("conversations/", **key).json()["id"] for one in (ana, fabio))
    assert mine != theirs


def test_another_fans_conversation_does_not_exist(ana: Caller, fabio: Caller) -> None:
    posted = ana.say("oi")
    for path in (
        f"conversations/{posted['conversation']}/",
        f"conversations/{posted['conversation']}/messages/",
        f"runs/{posted['run']}/",
        f"runs/{posted['run']}/steps/",
        f"runs/{posted['run']}/tool-calls/",
        f"runs/{posted['run']}/events/",
    ):
        assert_problem(fabio.get(path), 404)
    path = f"conversations/{posted['conversation']}/messages/"
    assert_problem(fabio.post(path, {"text": "oi"}), 404)
    assert_problem(fabio.post(f"runs/{posted['run']}/cancel/"), 404)
    assert fabio.get("conversations/").json()["results"] == []


def test_a_conversation_of_another_tenant_does_not_exist(ana: Caller, teatro: Cast) -> None:
    posted = ana.say("oi")
    for name in ("teo", "rui"):
        other = Caller(teatro, name)
        assert_problem(other.get(f"conversations/{posted['conversation']}/"), 404)
        assert_problem(other.get(f"runs/{posted['run']}/"), 404)


def test_a_token_of_another_tenant_opens_nothing(arena: Cast, teatro: Cast) -> None:
    assert_problem(Caller(arena, "teo", of=teatro).get("conversations/"), 404)


def test_a_visitor_keeps_to_their_own(arena: Cast) -> None:
    one, two = Caller(arena, None), Caller(arena, None)
    posted = one.say("oi")
    assert one.get(f"runs/{posted['run']}/").json()["state"] == "queued"
    assert one.get("conversations/").json()["results"][0]["user"] is None
    assert_problem(two.get(f"conversations/{posted['conversation']}/"), 404)
    assert two.get("conversations/").json()["results"] == []


def test_staff_see_who_waits_for_a_person_and_answer(
    arena: Cast, ana: Caller, fabio: Caller, rita: Caller
) -> None:
    waiting = [one.say("quero falar com alguém")["conversation"] for one in (fabio, ana)]
    ana.conversation()
    with arena.scope():
        for conversation in waiting:
            Conversation.objects.filter(pk=conversation).update(
                handoff_at=now(), handoff_reason="asked"
            )
    rows = rita.get("conversations/?handoff=1").json()["results"]
    assert [row["id"] for row in rows] == waiting
    assert [row["user"] for row in rows] == ["fabio", "ana"]
    page = rita.get("conversations/?handoff=1&page_size=1").json()
    rest = rita.client.get(page["next"], headers=rita.headers).json()
    assert [row["id"] for row in rest["results"]] == waiting[1:]

    answer = rita.post(f"conversations/{waiting[0]}/messages/", {"text": "Bom dia!"})
    assert answer.status_code == 202
    assert answer.json()["run"] is None
    said = fabio.get(f"conversations/{waiting[0]}/messages/").json()["results"]
    assert [(row["role"], row["text"]) for row in said][-1] == ("human", "Bom dia!")
    assert [row["id"] for row in rita.get("conversations/?handoff=1").json()["results"]] == waiting[
        1:
    ]
    assert rita.get("conversations/").json()["results"] == []


def test_a_fan_does_not_see_who_waits(ana: Caller) -> None:
    assert_problem(ana.get("conversations/?handoff=1"), 403)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": "  \n "}, "text"),
        ({"text": "\u0000"}, "text"),
        ({"text": None}, "text"),
        ({"text": 5}, "text"),
        ({"text": ["oi"]}, "text"),
        ({"text": "x" * 100_000}, "8000"),
        ({"text": "oi", "tenant": "teatro"}, "tenant"),
        ({"text": "oi", "user_id": 1}, "user_id"),
        ({"text": "oi", "client_id": "x" * 65}, "client_id"),
        ({"text": "oi", "client_id": 7}, "client_id"),
        ([], "dict"),
        ('"oi"', "dict"),
    ],
)
def test_a_bad_message_is_named_and_leaves_nothing(
    arena: Cast, ana: Caller, body: Any, word: str
) -> None:
    conversation = ana.conversation()
    path = f"conversations/{conversation}/messages/"
    problem = assert_problem(ana.post(path, body, **{"Accept-Language": "en"}), 422)
    assert word in str(problem)
    with arena.scope():
        assert Message.objects.count() == 0


def test_unknown_fields_of_a_new_conversation_are_named(ana: Caller) -> None:
    problem = assert_problem(
        ana.post("conversations/", {"tenant": "teatro", "user": 1}), 422, "tenant", "user"
    )
    assert set(problem["errors"]) == {"tenant", "user"}
    assert_problem(ana.post("conversations/", {"language": "tlh"}), 422, "language")


def test_an_unknown_conversation_is_not_found(ana: Caller) -> None:
    path = f"conversations/{uuid4()}/messages/"
    assert_problem(ana.post(path, {"text": "oi"}), 404)
    assert_problem(ana.get(path), 404)
    assert_problem(ana.get("conversations/not-an-id/"), 404)

"""Bad input at the real doors: what is wrong is said, and the connection and all data stay."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from django.db import transaction
from websockets.exceptions import ConnectionClosed

from agents.models import Conversation, Message, Run
from approvals.models import ApprovalRequest, Decision
from approvals.services import request_create
from tests.faults.fan import Fan
from tests.support.cast import Cast
from tests.support.stack import Stack

# Fixed, so that all processes of a parallel run collect the same tests.
NOBODY = "01a22d06-0000-7000-8000-000000000000"

LONG = "a" * 100_000


@pytest.fixture(scope="module")
def stack(house: Cast, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The web alone: nothing here may get as far as a worker."""
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(home=home, workers=0, beat=False) as live:
        yield live


@pytest.fixture
def ana(house: Cast, stack: Stack) -> Fan:
    """A fan at the site's doors."""
    return Fan(house, stack, "ana")


def rows(house: Cast) -> list[int]:
    """How much is stored of what a bad input could have changed."""
    with house.scope():
        kinds = (Conversation, Message, Run, ApprovalRequest, Decision)
        return [kind.objects.count() for kind in kinds]


def confirmation(house: Cast, conversation: str, run: str) -> ApprovalRequest:
    """Something that waits for ana in her conversation."""
    with house.scope(), transaction.atomic():
        return request_create(
            action="place_order",
            arguments={"hold_id": str(uuid4())},
            gate="fan",
            requested_for_id=house.user("ana").pk,
            reason="",
            preview=None,
            binding_hash="0" * 64,
            reference={"run": run, "conversation": conversation},
            risk="destructive",
            rule="tool",
        )


@pytest.mark.parametrize(
    ("frame", "code", "says"),
    [
        ("isto não é JSON", "invalid_frame", "JSON"),
        ('{"type": "message", "text": "oi"', "invalid_frame", "JSON"),
        ("[1, 2]", "invalid_frame", "JSON"),
        ("[" * 50_000, "invalid_frame", "JSON"),
        (json.dumps({"type": "message", "text": LONG}), "invalid_input", "8000"),
        (json.dumps({"type": "message", "text": ""}), "invalid_input", ""),
        (json.dumps({"type": "message"}), "invalid_input", "text"),
        (json.dumps({"type": "message", "text": "a\x00b", "client_id": 1}), "invalid_input", "cli"),
        (json.dumps({"type": "confirm", "approval": NOBODY}), "not_found", ""),
        (json.dumps({"type": "cancel", "run": NOBODY}), "not_found", ""),
        (json.dumps({"type": "resume", "after": {"x": 1}}), "invalid_input", "after"),
    ],
)
def test_a_bad_frame_is_answered_and_the_socket_stays(
    house: Cast, ana: Fan, frame: str, code: str, says: str
) -> None:
    conversation = ana.conversation()
    before = rows(house)
    with ana.page(conversation) as page:
        page.send_text(frame)
        error = page.until_notice("error")
        assert error["code"] == code
        assert says in error["message"]
        assert error["message"]
        assert rows(house) == before
        page.send(type="message", text="e agora?", client_id="after")
        assert page.until_notice("message.accepted")["client_id"] == "after"


def test_bytes_are_no_frame(house: Cast, ana: Fan) -> None:
    conversation = ana.conversation()
    before = rows(house)
    with ana.page(conversation) as page:
        page.send_bytes(b"\xff\xfe{}")
        assert page.until_notice("error")["code"] == "invalid_frame"
        assert rows(house) == before


def test_a_frame_without_an_end_closes_only_its_own_socket(house: Cast, ana: Fan) -> None:
    conversation = ana.conversation()
    before = rows(house)
    with ana.page(conversation) as other, ana.page(conversation) as page:
        with pytest.raises(ConnectionClosed):
            page.send_text("a" * (17 * 2**20))
            while True:
                page.next(20)
        assert rows(house) == before
        other.send(type="message", text="ainda aqui", client_id="1")
        assert other.until_notice("message.accepted")


def test_a_decision_on_a_decided_request_says_so_on_the_socket(house: Cast, ana: Fan) -> None:
    conversation = ana.conversation()
    run = ana.say("compre", conversation)
    request = confirmation(house, conversation, run)
    with ana.page(conversation) as page:
        page.send(type="decline", approval=str(request.pk))
        page.until(lambda frame: frame["type"] == "approval.decided")
        before = rows(house)
        for verb in ("confirm", "decline", "withdraw"):
            page.send(type=verb, approval=str(request.pk))
            error = page.until_notice("error")
            assert error["code"] in {"already_decided", "conflict"}
            assert error["approval"] == str(request.pk)
            assert error["message"]
        assert rows(house) == before
    with house.scope():
        assert ApprovalRequest.objects.get(pk=request.pk).state == "denied"


def test_a_decision_on_a_decided_request_is_a_conflict_over_rest(house: Cast, ana: Fan) -> None:
    conversation = ana.conversation()
    request = confirmation(house, conversation, ana.say("compre", conversation))
    path = f"approvals/{request.pk}"
    ana.post(f"{path}/deny/", {"reason": "mudei de ideia"}, 200)
    before = rows(house)
    for verb, body in (("approve", {}), ("deny", {"reason": "de novo"}), ("withdraw", {})):
        problem = ana.post(f"{path}/{verb}/", body, 409)
        assert problem["status"] == 409
        assert problem["detail"]
    assert rows(house) == before
    assert ana.get(f"{path}/")["state"] == "denied"


@pytest.mark.parametrize(
    ("body", "status", "says"),
    [
        (b'{"text": "oi"', 400, "JSON"),
        (b"", 422, ""),
        (b'{"text": ""}', 422, ""),
        (json.dumps({"text": LONG}).encode(), 422, ""),
        (b'{"text": "oi", "tenant": "teatro"}', 422, ""),
        (b'{"text": "' + b"a" * 2_000_000 + b'"}', 413, "bytes"),
    ],
)
def test_a_bad_message_is_a_problem(
    house: Cast, ana: Fan, body: bytes, status: int, says: str
) -> None:
    conversation = ana.conversation()
    before = rows(house)
    problem = send(ana, f"conversations/{conversation}/messages/", body)
    assert problem["status"] == status
    assert says in problem["detail"]
    assert rows(house) == before


def test_a_message_to_an_unknown_conversation_is_a_problem(house: Cast, ana: Fan) -> None:
    before = rows(house)
    assert send(ana, f"conversations/{uuid4()}/messages/", b'{"text": "oi"}')["status"] == 404
    assert rows(house) == before


def send(fan: Fan, path: str, body: bytes) -> Any:
    """The problem details that come back."""
    answer = httpx2.post(
        f"{fan.stack.url}/t/{fan.slug}/api/v1/{path}",
        content=body,
        headers=fan.headers | {"Content-Type": "application/json"},
        timeout=30,
    )
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer.json()

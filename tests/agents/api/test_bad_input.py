"""Whatever comes in, what comes out is problem details, and the data stay."""

from datetime import timedelta
from typing import Any

import pytest

from agents.models import Conversation
from boxoffice.common.clock import now
from boxoffice.tenancy.models import ApiToken
from tests.agents.api.conftest import Caller, assert_problem
from tests.support.cast import Cast

# Fixed, so that all processes of a parallel run collect the same tests.
NOBODY = "01a22d06-0000-7000-8000-000000000000"


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"{'text': 1}",
        b"\xff\xfe",
        b'{"language": NaN}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"language": "\\ud800"}',
        b'{"\\udfff": 1}',
        b"9" * 5_000,
    ],
)
def test_malformed_json(arena: Cast, ana: Caller, raw: bytes) -> None:
    assert_problem(ana.send("POST", "conversations/", raw), 400, "JSON")
    with arena.scope():
        assert Conversation.objects.count() == 0


def test_the_charset_of_a_client_is_not_trusted(ana: Caller) -> None:
    for charset in ("hex", "rot13", "nonsense"):
        kind = f"application/json; charset={charset}"
        made = ana.send("POST", "conversations/", b"{}", content_type=kind)
        assert made.status_code == 201


def test_a_body_of_too_many_bytes(ana: Caller, settings: Any) -> None:
    body = b'{"language": "' + b"x" * settings.DATA_UPLOAD_MAX_MEMORY_SIZE + b'"}'
    assert_problem(ana.send("POST", "conversations/", body), 413)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "text/xml"])
def test_another_content_type(ana: Caller, kind: str) -> None:
    assert_problem(ana.send("POST", "conversations/", b"text=oi", content_type=kind), 415)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "conversations/"),
        ("DELETE", "conversations/"),
        ("PATCH", f"conversations/{NOBODY}/"),
        ("POST", f"runs/{NOBODY}/"),
        ("GET", f"runs/{NOBODY}/cancel/"),
        ("DELETE", f"runs/{NOBODY}/events/"),
    ],
)
def test_another_method(ana: Caller, method: str, path: str) -> None:
    assert_problem(ana.send(method, path), 405, method)


def test_an_accept_that_cannot_be_met(ana: Caller) -> None:
    assert_problem(ana.get("conversations/", Accept="text/html"), 406)


def test_a_token_that_is_not_known(arena: Cast) -> None:
    caller = Caller(arena, None)
    for token in ("nonsense", "bo_" + "x" * 43, "é", " "):
        response = caller.get("conversations/", Authorization=f"Bearer {token}")
        assert_problem(response, 401)
        assert response["WWW-Authenticate"] == "Bearer"


def test_a_token_that_is_over(arena: Cast, ana: Caller) -> None:
    with arena.scope():
        ApiToken.objects.update(expires_at=now() - timedelta(seconds=1))
    assert_problem(ana.get("conversations/"), 401, "expired")
    with arena.scope():
        ApiToken.objects.update(expires_at=now() + timedelta(days=1), revoked_at=now())
    assert_problem(ana.get("conversations/"), 401)


def test_a_session_writes_only_with_its_csrf_token(arena: Cast) -> None:
    caller = Caller(arena, None)
    caller.client.handler.enforce_csrf_checks = True
    caller.client.force_login(arena.user("ana"))
    assert caller.get("conversations/").status_code == 200
    assert_problem(caller.post("conversations/"), 403, "CSRF")


def test_a_member_of_another_tenant_by_session(arena: Cast, teatro: Cast) -> None:
    caller = Caller(arena, None)
    caller.client.force_login(teatro.user("teo"))
    assert_problem(caller.get("conversations/"), 404)


@pytest.mark.parametrize("cursor", ["x", "cD14", "cD0lMDA=", "bz05OTk5OTk5OTk5OTk5OTk5", "é"])
@pytest.mark.parametrize("path", ["conversations/", "conversations/{}/messages/"])
def test_a_cursor_that_was_made_up(ana: Caller, path: str, cursor: str) -> None:
    response = ana.get(path.format(ana.conversation()) + f"?cursor={cursor}")
    if response.status_code != 200:  # an offset alone is a cursor too
        assert_problem(response, 404)


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "9" * 30, "٣"])
def test_an_event_number_that_is_none(ana: Caller, after: str) -> None:
    run_id = ana.say("oi")["run"]
    assert_problem(ana.get(f"runs/{run_id}/events/?after={after}"), 422, "after")


def test_an_idempotency_key_without_an_end(ana: Caller) -> None:
    assert_problem(ana.post("conversations/", **{"Idempotency-Key": "x" * 256}), 422)


@pytest.mark.parametrize(
    "path",
    [
        "/t/arena/api/",
        "/t/arena/api/v1/",
        "/t/arena/api/v1/nothing/",
        "/t/arena/api/v2/conversations/",
        "/t/arena/api/v1/conversations/not-an-id/",
        "/t/arena/api/v1/conversations/%00/",
        "/t/nobody/api/v1/conversations/",
        "/api/v1/conversations/",
    ],
)
def test_an_address_that_does_not_exist(ana: Caller, settings: Any, path: str) -> None:
    for settings.DEBUG in (True, False):
        for method in ("GET", "POST"):
            reply = ana.client.generic(method, path, b"{}", content_type="application/json")
            assert_problem(reply, 404)


def test_an_address_without_its_slash(ana: Caller) -> None:
    reply = ana.get("conversations?page_size=1")
    assert reply.status_code == 301
    assert reply["Location"] == "/t/arena/api/v1/conversations/?page_size=1"
    problem = assert_problem(ana.send("POST", "conversations", b"{}"), 404)
    assert "slash" in problem["hint"]


def test_a_mistake_of_our_own_is_a_problem_too(
    ana: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.selectors.conversations_for", lambda principal: 1 // 0)
    problem = assert_problem(ana.get("conversations/"), 500)
    assert "division" not in str(problem)

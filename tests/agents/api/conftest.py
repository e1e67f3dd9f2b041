"""The doors as their clients meet them: paths, tokens and JSON."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.support.cast import Cast, make_cast

type Api = Callable[..., "Caller"]


class Caller:
    """A client of one tenant's API, with the token of one member (or as a visitor)."""

    def __init__(self, cast: Cast, name: str | None, *, of: Cast | None = None) -> None:
        self.client = Client(raise_request_exception=False)
        self.base = f"/t/{cast.tenant.slug}/api/v1/"
        self.headers = {"Authorization": f"Bearer {(of or cast).token(name)}"} if name else {}

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(self.base + path, headers=self.headers | headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.post(
            self.base + path,
            data={} if body is None else body,
            content_type="application/json",
            headers=self.headers | headers,
        )

    def send(self, method: str, path: str, raw: bytes = b"", **options: Any) -> Any:
        headers = self.headers | options.pop("headers", {})
        options.setdefault("content_type", "application/json")
        return self.client.generic(method, self.base + path, raw, headers=headers, **options)

    def conversation(self) -> str:
        made = self.post("conversations/")
        assert made.status_code == 201, made.content
        return str(made.json()["id"])

    def say(self, text: str, conversation: str | None = None) -> dict[str, str]:
        conversation = conversation or self.conversation()
        posted = self.post(f"conversations/{conversation}/messages/", {"text": text})
        assert posted.status_code == 202, posted.content
        return dict(posted.json()) | {"conversation": conversation}


def assert_problem(response: Any, status: int, *words: str) -> dict[str, Any]:
    """The response is problem details of that status, and its text has the words."""
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert {"type", "title", "detail", "code"} <= set(body)
    for word in words:
        assert word in body["detail"], body
    return body


@pytest.fixture
def arena(db: None) -> Cast:
    return make_cast("arena")


@pytest.fixture
def teatro(arena: Cast) -> Cast:
    return make_cast("teatro")


@pytest.fixture
def ana(arena: Cast) -> Caller:
    return Caller(arena, "ana")


@pytest.fixture
def fabio(arena: Cast) -> Caller:
    return Caller(arena, "fabio")


@pytest.fixture
def rita(arena: Cast) -> Caller:
    return Caller(arena, "rita")

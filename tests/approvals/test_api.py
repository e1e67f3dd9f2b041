"""The REST doors: who sees what, what a decision answers, what a bad request is told."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals import services
from approvals.models import ApprovalRequest, Decision
from boxoffice.common.types import uuid7
from boxoffice.tenancy.principals import token_create
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast

BASE = "/t/arena/api/v1/approvals/"


def post(client: Client, path: str, body: Any = None, **headers: str) -> Any:
    data = body if isinstance(body, str) else json.dumps({} if body is None else body)
    return client.post(f"{BASE}{path}", data, content_type="application/json", headers=headers)


class TestList:
    def test_a_reviewer_reads_the_inbox(self, cast: Cast, ask: Any) -> None:
        request = ask()
        ask(gate="fan")
        page = cast.client("rita").get(f"{BASE}?state=pending").json()
        (row,) = page["results"]
        assert page["next"] is None
        assert row == {
            "id": str(request.pk),
            "gate": "reviewer",
            "tool": "refund_order",
            "arguments": {"order_id": "o-1", "reason": "doente"},
            "asked_arguments": {"order_id": "o-1", "reason": "doente"},
            "state": "pending",
            "created_at": row["created_at"],
            "expires_at": row["expires_at"],
            "preview": request.preview,
            "run": request.reference["run"],
            "conversation": request.reference["conversation"],
            "requested_for": "ana",
            "reason": "Refunds are decided by a person.",
            "risk": "destructive",
            "rule": "destructive-needs-reviewer",
            "quorum": 1,
            "approvals": 0,
            "decided_by": None,
            "decided_at": None,
            "note": "",
        }

    def test_a_fan_reads_her_own_confirmations(self, cast: Cast, ask: Any) -> None:
        ask()
        mine = ask(gate="fan")
        assert [row["id"] for row in cast.client("ana").get(BASE).json()["results"]] == [
            str(mine.pk)
        ]
        assert cast.client("bia").get(BASE).json()["results"] == []

    def test_a_reviewer_who_buys_reads_hers_too(self, cast: Cast, ask: Any) -> None:
        mine = ask(gate="fan", requested_for_id=cast.rita.pk)
        rows = cast.client("rita").get(f"{BASE}?mine=true").json()["results"]
        assert [row["id"] for row in rows] == [str(mine.pk)]

    def test_filters(self, cast: Cast, ask: Any) -> None:
        refund, email = ask(), ask(action="send_email")
        with tenant_scope(cast.arena.pk):
            services.approve(request_id=refund.pk, principal=cast.principal("rita"))
        client = cast.client("rita")

        def ids(query: str) -> list[str]:
            return [row["id"] for row in client.get(f"{BASE}?{query}").json()["results"]]

        assert ids("state=pending") == [str(email.pk)]
        assert ids("state=approved") == [str(refund.pk)]
        assert ids("tool=send_email") == [str(email.pk)]
        assert ids("state=denied") == []
        assert ids("tool=%00") == []
        answer = client.get(f"{BASE}?state=lost")
        assert answer.status_code == 422
        assert "pending" in answer.json()["detail"]

    def test_pages(self, cast: Cast, ask: Any) -> None:
        made = [str(ask().pk) for _ in range(5)]
        client, seen, url = cast.client("rita"), [], f"{BASE}?page_size=2"
        while url:
            page = client.get(url).json()
            seen += [row["id"] for row in page["results"]]
            url = page["next"]
        assert seen == made[::-1]

    def test_the_number_of_queries_does_not_grow(self, cast: Cast, ask: Any) -> None:
        client, rita = cast.client("rita"), cast.principal("rita")
        counts = []
        for _ in range(2):
            for _ in range(3):
                with tenant_scope(cast.arena.pk):
                    services.deny(request_id=ask().pk, principal=rita, reason="because")
            with CaptureQueriesContext(
                connection,
            ) as queries:
                client.get(BASE)
            counts.append(len(queries))
        assert counts[0] == counts[1]


DETAIL = {"ana": 200, "bia": 404, "rita": 200, "anita": 200, "ada": 200, "rui": 404, None: 401}


@pytest.mark.parametrize("who", DETAIL)
def test_who_reads_a_reviewers_request(cast: Cast, ask: Any, who: str | None) -> None:
    assert cast.client(who).get(f"{BASE}{ask().pk}/").status_code == DETAIL[who]


FANS = {"ana": 200, "bia": 404, "rita": 404, "ada": 404, "rui": 404, None: 401}


@pytest.mark.parametrize("who", FANS)
@pytest.mark.parametrize("verb", ["approve", "deny"])
def test_who_confirms_or_declines(cast: Cast, ask: Any, who: str | None, verb: str) -> None:
    request = ask(gate="fan")
    assert cast.client(who).get(f"{BASE}{request.pk}/").status_code == FANS[who]
    assert post(cast.client(who), f"{request.pk}/{verb}/").status_code == FANS[who]


APPROVE = {"ana": 403, "bia": 404, "rita": 200, "anita": 403, "ada": 200, "rui": 404, None: 401}


@pytest.mark.parametrize("who", APPROVE)
@pytest.mark.parametrize(("verb", "body"), [("approve", {}), ("deny", {"reason": "because"})])
def test_who_decides(
    cast: Cast, ask: Any, who: str | None, verb: str, body: dict[str, str]
) -> None:
    answer = post(cast.client(who), f"{ask().pk}/{verb}/", body)
    assert answer.status_code == APPROVE[who]
    if answer.status_code == 403:
        assert answer.json()["code"] == "four_eyes"
    if answer.status_code != 200:
        assert answer["Content-Type"] == "application/problem+json"


WITHDRAW = {"ana": 200, "bia": 404, "rita": 404, "ada": 404, "rui": 404, None: 401}


@pytest.mark.parametrize("who", WITHDRAW)
@pytest.mark.parametrize("gate", ["fan", "reviewer"])
def test_who_withdraws(cast: Cast, ask: Any, who: str | None, gate: str) -> None:
    answer = post(cast.client(who), f"{ask(gate=gate).pk}/withdraw/")
    assert answer.status_code == WITHDRAW[who]


def test_an_approval_answers_with_the_row(cast: Cast, ask: Any) -> None:
    row = post(cast.client("rita"), f"{ask().pk}/approve/", {"note": "fine"}).json()
    assert (row["state"], row["decided_by"], row["note"]) == ("approved", "rita", "fine")
    assert row["decided_at"] is not None
    assert row["approvals"] == 1


def test_an_edit_answers_with_both_arguments(cast: Cast, ask: Any, port: object) -> None:
    edit = {"order_id": "o-1", "reason": "show cancelled"}
    row = post(cast.client("rita"), f"{ask().pk}/approve/", {"arguments": edit}).json()
    assert row["arguments"] == edit
    assert row["asked_arguments"] == {"order_id": "o-1", "reason": "doente"}
    bad = post(cast.client("rita"), f"{ask().pk}/approve/", {"arguments": {"x": 1}})
    assert bad.status_code == 422
    assert "nothing else" in bad.json()["detail"]


def test_a_decided_request_answers_409_with_who_and_when(cast: Cast, ask: Any) -> None:
    request = ask()
    post(cast.client("rita"), f"{request.pk}/deny/", {"reason": "because"})
    answer = post(cast.client("raul"), f"{request.pk}/approve/")
    problem = answer.json()
    assert answer.status_code == 409
    assert problem["code"] == "already_decided"
    assert (problem["state"], problem["decided_by"]) == ("denied", "rita")
    assert problem["decided_at"]


@pytest.mark.parametrize(
    ("verb", "body", "names"),
    [
        ("approve", {"tool": "send_email"}, "tool"),
        ("approve", {"arguments": {}, "tenant": "teatro"}, "tenant"),
        ("approve", {"arguments": "all"}, "arguments"),
        ("approve", {"arguments": [1]}, "arguments"),
        ("approve", {"note": 3 * ["x"]}, "note"),
        ("approve", {"note": "x" * 2001}, "note"),
        ("approve", {"note": "a\0b"}, "note"),
        ("approve", {"arguments": {"order_id": "a\0b"}}, "arguments"),
        ("approve", [1, 2], ""),
        ("deny", {}, "reason"),
        ("deny", {"reason": "no"}, "reason"),
        ("deny", {"reason": None}, "reason"),
        ("deny", {"reason": "because", "note": "x"}, "note"),
    ],
)
def test_a_bad_body_is_told_what_is_wrong(
    cast: Cast, ask: Any, verb: str, body: Any, names: str
) -> None:
    request = ask()
    answer = post(cast.client("rita"), f"{request.pk}/{verb}/", body)
    assert answer.status_code == 422
    assert answer["Content-Type"] == "application/problem+json"
    assert names in answer.json()["detail"]
    with tenant_scope(cast.arena.pk):
        assert ApprovalRequest.objects.get().state == "pending"


def test_an_unknown_field_of_a_withdrawal_is_refused(cast: Cast, ask: Any) -> None:
    answer = post(cast.client("ana"), f"{ask().pk}/withdraw/", {"why": "x"})
    assert answer.status_code == 422


def test_broken_json_is_a_problem(cast: Cast, ask: Any) -> None:
    answer = post(cast.client("rita"), f"{ask().pk}/approve/", "{")
    assert answer.status_code == 400
    assert answer.json()["code"] == "parse_error"


def test_what_does_not_exist_is_not_found(cast: Cast) -> None:
    client = cast.client("rita")
    assert client.get(f"{BASE}{uuid7()}/").status_code == 404
    assert post(client, f"{uuid7()}/approve/").status_code == 404


def test_the_same_key_decides_once(cast: Cast, ask: Any) -> None:
    request, client = ask(), cast.client("rita")
    key = {"Idempotency-Key": "k-1"}
    first = post(client, f"{request.pk}/approve/", {"note": "a"}, **key)
    again = post(client, f"{request.pk}/approve/", {"note": "a"}, **key)
    other = post(client, f"{request.pk}/approve/", {"note": "b"}, **key)
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 409)
    assert first.json() == again.json()
    with tenant_scope(cast.arena.pk):
        assert Decision.objects.count() == 1


def test_a_token_stands_for_its_member(cast: Cast, ask: Any) -> None:
    token = token_create(tenant=cast.arena, user=cast.rita)
    bearer = {"Authorization": f"Bearer {token}"}
    assert post(Client(), f"{ask().pk}/approve/", **bearer).status_code == 200


def test_a_session_needs_its_csrf_token(cast: Cast, ask: Any) -> None:
    client = cast.client("rita", enforce_csrf_checks=True)
    assert post(client, f"{ask().pk}/approve/").status_code == 403

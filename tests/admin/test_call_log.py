"""The log of calls in the console: filters, kept views, exports, and what of people is shown."""

import csv
import io
import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient
from guardian.shortcuts import assign_perm, remove_perm

from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.models import User
from boxoffice.tenancy.scope import operator_scope
from tests.admin.conftest import console, page
from tests.support.cast import Cast
from tests.tools.proposing import caller_of, put
from tools import calllog
from tools.models import SavedView, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)
LOG = "tools/toolcall/"
LETTER = {"to": "maria@example.com", "subject": "=HYPERLINK(1)", "body": "Oi, Maria."}
SECRETS = ("maria@example.com", "HYPERLINK", "Oi, Maria", "ana@example.com")


@pytest.fixture
def calls(arena: Cast, teatro: Cast) -> list[ToolCall]:
    """What ana's agent has proposed: a search, one refused, a ticket, and a search in teatro."""
    with teatro.scope():
        put(caller_of(teatro, "teo"), "search_events", {})
    with arena.scope():
        caller = caller_of(arena)
        return [
            put(caller, "search_events", {"query": "jazz"}).call,
            put(caller, "send_email", LETTER | {"cc": "ana@example.com"}).call,
            put(caller, "create_ticket", {"subject": "=Olá", "body": "Sou a Maria."}).call,
        ]


def rows(name: str, **query: Any) -> list[str]:
    """The tools that the list shows, newest first."""
    changes = page(console(name), LOG, **query).context["cl"]
    return [call.tool for call in changes.result_list]


def take(name: str, kind: str, query: str = "") -> tuple[int, str]:
    """Status and text of an export."""

    async def fetch() -> tuple[int, str]:
        client = AsyncClient()
        await client.aforce_login(await User.objects.aget(username=name))
        reply: Any = await client.post(f"/admin/{LOG}export/{kind}/{query}")
        if not reply.streaming:
            return reply.status_code, ""
        return reply.status_code, b"".join([part async for part in reply]).decode()

    return async_to_sync(fetch)()


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("query", "tools"),
    [
        ({"tool": "create_ticket"}, ["create_ticket"]),
        ({"state__exact": "denied"}, ["send_email"]),
        ({"verdict__exact": "deny"}, ["send_email"]),
        ({"reason": "invalid_arguments"}, ["send_email"]),
        ({"error": "final"}, ["send_email"]),
        ({"error": "retryable"}, []),
        ({"error": "none", "tries": "1"}, ["create_ticket", "search_events"]),
        ({"latency": "very"}, []),
        ({"tier": "pro", "tool": "search_events"}, ["search_events"]),
        ({"tier": "free"}, []),
        ({"q": "invalid_arguments"}, ["send_email"]),
        ({"created_at__gte": "2020-01-01 00:00+00:00", "tool": "create_ticket"}, ["create_ticket"]),
        ({"created_at__lt": "2020-01-01 00:00+00:00"}, []),
    ],
)
def test_the_list_is_filtered(query: dict[str, str], tools: list[str]) -> None:
    assert rows("ada", **query) == tools


@pytest.mark.usefixtures("calls")
def test_an_export_has_exactly_what_is_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calllog, "CHUNK", 1)  # each row is read by itself
    status, text = take("ada", "jsonl", "?verdict__exact=allow&tries=1")
    found = [json.loads(line) for line in text.splitlines()]
    assert status == 200
    assert [row["tool"] for row in found] == ["create_ticket", "search_events"]
    assert {row["tenant"] for row in found} == {"arena"}
    assert list(found[0]) == list(calllog.COLUMNS)
    assert found[1]["arguments"] == {"query": "jazz"}
    assert found[1]["result_tokens"] > 0
    assert found[1]["from_outside"] or found[1]["from_outside"] == []
    status, text = take("ada", "csv", "?tool=send_email")
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["error_code"], row["verdict"], row["tier"]) == ("invalid_arguments", "deny", "")
    assert take("ada", "csv", "?tool=nothing")[1].count("\n") == 1


def test_an_export_is_written_down(arena: Cast, calls: list[ToolCall]) -> None:
    take("ada", "csv", "?tool=create_ticket&p=3")
    with arena.scope():
        (record,) = AuditRecord.objects.filter(action="tools.calls.exported")
    assert record.actor == f"user:{arena.user('ada').pk}"
    assert record.details == {
        "format": "csv",
        "filter": "tool=create_ticket",
        "personal_data": False,
    }


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_only_who_has_the_right_takes_the_log_away(arena: Cast, kind: str) -> None:
    assert take("ana", kind)[0] == 302
    assert take("rita", kind)[0] == 302
    assert "teatro" not in take("ada", kind)[1]
    assert {"arena", "teatro"} <= set(take("root", kind)[1].replace('"', ",").split(","))
    remove_perm("tenancy.export_calls", arena.user("ada"), arena.tenant)
    assert take("ada", kind)[0] == 403
    assert b"/export/" not in page(console("ada"), LOG).content
    with operator_scope("what was written down"):
        assert AuditRecord.objects.filter(action="tools.calls.exported").exists()


def test_a_form_that_is_not_there_is_404(calls: list[ToolCall]) -> None:
    assert take("ada", "xlsx")[0] == 404
    assert console("ada").get(f"/admin/{LOG}export/csv/").status_code == 405


def test_no_cell_is_a_formula(arena: Cast, calls: list[ToolCall]) -> None:
    assign_perm("tenancy.view_personal_data", arena.user("ada"), arena.tenant)
    with arena.scope():
        User.objects.filter(username="ana").update(username="=ana")
    _, text = take("ada", "csv")
    found = list(csv.DictReader(io.StringIO(text)))
    assert {row["on_behalf_of"] for row in found} >= {"'=ana"}
    for value in ("=1", "+1", "-1", "@a", "\t=1", "\r=1", " =1", ["=1"], {"a": "=1"}):
        cell = calllog._cell(value)
        assert cell.lstrip(" ")[:1] not in set("=+-@\t\r"), value
    assert calllog._cell(-5) == "-5"  # a number of ours


def test_what_people_wrote_is_hidden_in_list_page_and_file(
    arena: Cast, calls: list[ToolCall]
) -> None:
    client = console("ada")
    texts = [page(client, LOG).content.decode()]
    texts += [page(client, f"{LOG}{call.pk}/change/").content.decode() for call in calls]
    texts += [take("ada", "csv")[1], take("ada", "jsonl")[1]]
    for text in texts:
        for secret in (*SECRETS, "Sou a Maria"):
            assert secret not in text
        assert f"#{arena.user('ana').pk}" in text
    assert rows("ada", q="ana") == []
    assert "jazz" in texts[1]  # what is nobody's is shown


def test_who_has_the_right_sees_it(arena: Cast, calls: list[ToolCall]) -> None:
    assign_perm("tenancy.view_personal_data", arena.user("ada"), arena.tenant)
    text = page(console("ada"), f"{LOG}{calls[1].pk}/change/").content.decode()
    assert "maria@example.com" in text
    assert "Oi, Maria." in text
    exported = take("ada", "jsonl")[1]
    assert "maria@example.com" in exported
    assert '"on_behalf_of": "ana"' in exported
    assert "search_events" in rows("ada", q="ana")


def test_what_no_tool_explains_is_hidden_whole(arena: Cast, teatro: Cast) -> None:
    with arena.scope():
        call = put(caller_of(arena), "gone_tool", {"who": "Maria", "n": 1}).call
    text = page(console("ada"), f"{LOG}{call.pk}/change/").content.decode()
    assert "Maria" not in text
    assert "•••" in text


def keep(name: str, view: str, wish: str) -> Any:
    path = f"/admin/{LOG}views/keep/"
    return console(name).post(path, {"name": view, "wish": wish}, follow=True)


@pytest.mark.usefixtures("calls")
def test_a_view_is_kept_for_oneself_and_removed(arena: Cast) -> None:
    reply = keep("ada", "  Recusadas ", "verdict__exact=deny&p=2")
    assert rows("ada", verdict__exact="deny") == ["send_email"]
    assert reply.redirect_chain[-1][0].endswith("?verdict__exact=deny")
    assert 'href="/admin/tools/toolcall/?verdict__exact=deny">Recusadas</a>' in (
        reply.content.decode()
    )
    keep("ada", "Recusadas", "verdict__exact=deny&tries=0")
    with arena.scope():
        (view,) = SavedView.objects.filter(user=arena.user("ada"))
    assert view.wish == "verdict__exact=deny&tries=0"
    assert "Recusadas" not in page(console("tina"), LOG).content.decode()
    path = f"/admin/{LOG}views/{view.pk}/remove/"
    assert console("tina").post(path).status_code == 404
    assert console("ada").post(path).status_code == 302
    with arena.scope():
        assert not SavedView.objects.filter(pk=view.pk).exists()


@pytest.mark.usefixtures("calls")
def test_a_view_of_several_tenants_is_refused_in_words(teatro: Cast) -> None:
    assert "Escolha primeiro uma casa" in keep("root", "Tudo", "").content.decode()
    keep("root", "Dela", f"tenant__id__exact={teatro.tenant.pk}")
    with operator_scope("every view"):
        (view,) = SavedView.objects.filter(user__username="root")
    assert view.tenant_id == teatro.tenant.pk

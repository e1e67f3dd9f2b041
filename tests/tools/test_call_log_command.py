"""`manage.py call_log`: what is filtered, hidden unless it is asked for, and written down."""

import csv
import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from boxoffice.audit.models import AuditRecord
from tests.support.cast import Cast
from tests.tools.proposing import caller_of, put


def printed(*args: str) -> str:
    out = StringIO()
    call_command("call_log", "--tenant", "arena", *args, stdout=out)
    return out.getvalue()


@pytest.fixture(autouse=True)
def calls(arena: Cast) -> None:
    with arena.scope():
        caller = caller_of(arena)
        put(caller, "search_events", {"query": "jazz"})
        put(caller, "create_ticket", {"subject": "Rampa", "body": "Sou a Maria."})
        put(caller, "no_such_tool", {})


def test_it_prints_what_is_filtered() -> None:
    (row,) = csv.DictReader(StringIO(printed("--verdict", "deny")))
    assert (row["tool"], row["error_code"]) == ("no_such_tool", "unknown_tool")
    lines = printed("--format", "jsonl", "--state", "succeeded", "--tier", "pro").splitlines()
    assert [json.loads(line)["tool"] for line in lines] == ["create_ticket", "search_events"]
    assert printed("--format", "jsonl", "--until", "2020-01-01T00:00Z") == ""
    assert printed("--format", "jsonl", "--since", "2020-01-01T00:00Z").count("\n") == 3
    assert printed("--format", "jsonl", "--error", "unknown_tool").count("\n") == 1


def test_people_are_hidden_unless_asked_for_and_it_is_audited(arena: Cast) -> None:
    assert "Maria" not in printed()
    assert "ana" in printed("--with-personal-data", "--tool", "create_ticket")
    assert "Maria" in printed("--with-personal-data", "--format", "jsonl")
    with arena.scope():
        records = AuditRecord.objects.filter(action="tools.calls.exported").order_by("sequence")
        assert [one.details["personal_data"] for one in records] == [False, True, True]
        assert records[1].details["filter"] == "tool=create_ticket"


@pytest.mark.parametrize(
    ("options", "code"), [({"since": "yesterday"}, 2), ({"since": "2026-01-01T00:00"}, 2)]
)
def test_wrong_usage_has_a_code_of_its_own(options: dict[str, Any], code: int) -> None:
    with pytest.raises(CommandError) as refused:
        call_command("call_log", tenant="arena", **options)
    assert refused.value.returncode == code


def test_an_unknown_tenant_too() -> None:
    with pytest.raises(CommandError) as refused:
        call_command("call_log", tenant="nobody")
    assert refused.value.returncode == 3

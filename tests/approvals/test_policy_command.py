"""`manage.py policy`: what it prints, what it stores, and the code with which it ends."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from approvals.models import PolicyVersion
from approvals.policies import versions
from boxoffice.tenancy.models import Tier
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast

RULES = "- {name: r, tools: [refund_order], tiers: [pro], when: 'true', effect: deny}\n"
type Run = Callable[..., tuple[str, str, int]]


@pytest.fixture
def policy(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run it; returns what it printed on both streams, and its exit code."""

    def run(*words: str, stdin: str = "", tenant: str = "arena") -> tuple[str, str, int]:
        out, err, code = StringIO(), StringIO(), 0
        monkeypatch.setattr("sys.stdin", StringIO(stdin))
        try:
            call_command("policy", "--tenant", tenant, *words, stdout=out, stderr=err)
        except CommandError as error:
            err.write(str(error))
            code = error.returncode
        except SystemExit as ended:
            code = int(ended.code or 0)
        return out.getvalue(), err.getvalue(), code

    return run


def stored(cast: Cast) -> list[tuple[int, str]]:
    with tenant_scope(cast.arena.pk):
        return list(PolicyVersion.objects.order_by("number").values_list("number", "state"))


def test_a_file_is_checked_imported_and_exported(cast: Cast, policy: Run, tmp_path: Path) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(RULES)
    assert policy("validate", str(path)) == ("1 rules, valid\n", "", 0)
    assert policy("import", str(path), "--dry-run")[0] == "would store 1 rules as a draft\n"
    assert stored(cast) == []
    out, _, code = policy("import", str(path), "--note", "first", "--json")
    assert (json.loads(out)["number"], json.loads(out)["created"], code) == (1, True, 0)
    out, _, _ = policy("import", "-", "--json", stdin=RULES)  # again: nothing new
    assert (json.loads(out)["number"], json.loads(out)["created"]) == (1, False)
    assert stored(cast) == [(1, "draft")]
    assert policy("export", "1")[0] == RULES
    assert policy("export")[2] == 3  # none is in force
    shown = json.loads(policy("show", "1", "--json")[0])
    assert (shown["state"], shown["note"], shown["rules"][0]["name"]) == ("draft", "first", "r")
    assert "first" in policy("list")[0]
    assert policy("list", "--quiet")[0] == ""


def test_what_is_wrong_goes_out_with_its_place(cast: Cast, policy: Run) -> None:
    bad = RULES.replace("'true'", "args.amount > 1")
    out, err, code = policy("validate", "-", stdin=bad)
    assert (out, code) == ("", 4)
    assert err.startswith("-:1:56: r: when: None of the rule's tools has an argument “amount”")
    out, _, code = policy("import", "-", "--json", stdin=bad)
    (problem,) = json.loads(out)["problems"]
    assert (problem["line"], problem["column"], problem["rule"], code) == (1, 56, "r", 4)
    assert stored(cast) == []


def test_versions_are_brought_in_force(cast: Cast, policy: Run) -> None:
    with tenant_scope(cast.arena.pk):
        for _ in range(2):
            versions.draft_create(source=RULES)
    assert policy("activate", "1", "--dry-run")[0] == "would put it in force: policy:1\n"
    assert policy("activate", "1")[2] == 2  # nobody can be asked
    assert stored(cast) == [(1, "draft"), (2, "draft")]
    assert policy("activate", "1", "--yes") == ("policy:1 is active\n", "", 0)
    assert policy("activate", "1", "--yes")[0] == "policy:1 is active already\n"
    out, _, _ = policy("activate", "2", "--dry-run")
    assert out == "would put it in force: policy:2, in place of policy:1\n"
    assert policy("export")[0] == RULES
    assert json.loads(policy("shadow", "2", "--yes", "--json")[0])["state"] == "shadow"
    assert policy("retire", "1", "--yes", "--quiet") == ("", "", 0)
    assert stored(cast) == [(1, "retired"), (2, "shadow")]
    assert policy("activate", "1", "--yes")[2] == 5


def test_a_dry_run_ends_as_the_run_would(cast: Cast, policy: Run) -> None:
    with tenant_scope(cast.arena.pk):
        for _ in range(3):
            versions.draft_create(source=RULES)
        Tier.objects.create(slug="gold", name="g", model_alias="m")
        versions.draft_create(source=RULES.replace("pro", "gold"))
        Tier.objects.filter(slug="gold").update(slug="silver")
    policy("retire", "1", "--yes")
    policy("activate", "2", "--yes")
    for words, code in (
        (("activate", "1"), 5),  # retired
        (("shadow", "1"), 5),
        (("shadow", "2"), 5),  # in force
        (("activate", "4"), 4),  # fits no more
        (("shadow", "4"), 4),
        (("retire", "4"), 0),  # which is no reason to keep it
        (("activate", "3"), 0),
    ):
        before = stored(cast)
        _, dry_said, dry = policy(*words, "--dry-run")
        assert stored(cast) == before
        _, said, real = policy(*words, "--yes")
        assert (dry, dry_said) == (real, said) == (code, said)
        assert bool(said) == bool(code)


def test_the_rules_of_a_retired_version_are_stored_and_put_in_force_again(
    cast: Cast, policy: Run
) -> None:
    policy("import", "-", stdin=RULES)
    policy("activate", "1", "--yes")
    policy("retire", "1", "--yes")
    assert policy("import", "-", "--dry-run", stdin=RULES)[0] == "would store 1 rules as a draft\n"
    out, _, _ = policy("import", "-", "--json", stdin=RULES)
    assert (json.loads(out)["number"], json.loads(out)["created"]) == (2, True)
    assert policy("activate", "2", "--yes")[2] == 0
    policy("import", "-", stdin="rules: []")
    policy("retire", "3", "--yes")
    out, _, _ = policy("import", "-", "--json", stdin=RULES)  # they are in force
    assert (json.loads(out)["number"], json.loads(out)["created"]) == (2, False)
    assert stored(cast) == [(1, "retired"), (2, "active"), (3, "retired")]


@pytest.mark.parametrize(
    ("words", "tenant", "code"),
    [
        (("list",), "nowhere", 3),
        (("show", "7"), "arena", 3),
        (("validate", "/no/such/file"), "arena", 3),
        (("what-if", "-", "--days", "1000"), "arena", 2),
    ],
)
def test_exit_codes_differ(
    cast: Cast, policy: Run, words: tuple[str, ...], tenant: str, code: int
) -> None:
    _, err, found = policy(*words, tenant=tenant)
    assert found == code
    assert err


def test_a_tenants_rules_are_its_own(cast: Cast, policy: Run) -> None:
    with tenant_scope(cast.arena.pk):
        versions.draft_create(source=RULES)
    assert policy("show", "1", tenant="teatro")[2] == 3
    assert json.loads(policy("list", "--json", tenant="teatro")[0]) == []


def test_help_has_examples(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        call_command("policy", "--help")
    assert ended.value.code == 0
    told = capsys.readouterr().out
    assert "manage.py policy --tenant arena activate 4 --yes" in told
    assert "Exit codes:" in told

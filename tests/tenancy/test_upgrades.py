"""Migrations that the release before would not survive are refused."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres import operations as postgres
from django.core.management import call_command
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Q

from boxoffice.common.transitions import machine
from boxoffice.tenancy import upgrades
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.rls import append_only, enable_rls, state_guard

REASON = "No process writes this table before the release."


def nothing(*args: Any) -> None:
    """For RunPython."""


def codes(*operations: Operation, label: str = "agents", **about: Any) -> list[str]:
    """What is refused in a migration of these operations on the present tables."""
    kind = type("Migration", (migrations.Migration,), {"operations": list(operations), **about})
    state = ProjectState.from_apps(apps)
    found = upgrades.migration_check(kind("9999_new", label), state, set())
    assert all(one.hint for one in found)
    return [one.code for one in found]


def add(field: Any, model: str = "run", name: str = "fresh") -> migrations.AddField:
    return migrations.AddField(model, name, field)


def check(name: str, condition: Q) -> models.CheckConstraint:
    return models.CheckConstraint(condition=condition, name=name)


INDEX = models.Index(fields=["state"], name="fresh_index")
GUARD = state_guard("agents_run", machine("state", {"a": set()}), initial=["a"])
REFUSED: list[tuple[str, Operation]] = [
    ("drops", migrations.RemoveField("run", "route")),
    ("drops", migrations.DeleteModel("step")),
    ("drops", migrations.RemoveConstraint("run", "run_one_running_per_conversation")),
    ("renames", migrations.RenameField("run", "route", "way")),
    ("renames", migrations.RenameModel("Step", "Stage")),
    ("renames", migrations.AlterModelTable("run", "runs")),
    ("renames", migrations.AlterField("run", "route", models.TextField(db_column="x"))),
    ("no_default", add(models.TextField())),
    ("no_default", add(models.TextField(default="only Django knows"))),
    ("locks", add(models.TextField(null=True, db_index=True))),
    ("locks", add(models.ForeignKey("agents.Run", models.PROTECT, null=True))),
    ("locks", migrations.AddIndex("run", INDEX)),
    ("locks", migrations.RemoveIndex("run", "run_unfinished")),
    ("locks", migrations.AlterField("run", "tier", models.CharField(max_length=50, db_index=True))),
    ("narrows", migrations.AlterField("run", "lease_until", models.DateTimeField())),
    ("narrows", migrations.AlterField("run", "tier", models.CharField(max_length=10))),
    ("narrows", migrations.AlterField("run", "route", models.IntegerField())),
    ("narrows", migrations.AlterField("run", "worked_ms", models.BigIntegerField())),
    ("narrows", migrations.AlterUniqueTogether("run", {("tenant", "route")})),
    ("narrows", postgres.AddConstraintNotValid("run", check("x", Q(steps_used__lt=9)))),
    ("sql", migrations.RunSQL("DROP TABLE agents_step")),
    ("sql", migrations.RunPython(nothing)),
    ("sql", GUARD),
    ("sql", enable_rls("agents_run")),
    ("sql", migrations.AlterOrderWithRespectTo("step", "run")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("code", "operation"), REFUSED, ids=[f"{c}-{type(o).__name__}" for c, o in REFUSED]
)
def test_what_breaks_the_release_before_is_refused(code: str, operation: Operation) -> None:
    assert codes(operation) == [code]
    assert codes(operation, reviewed={code: REASON}) == []
    assert codes(operation, reviewed={code: "ok"}) == [code]
    assert codes(operation, reviewed={"other": REASON}) == [code]


def test_a_constraint_on_a_big_table_locks_it_and_narrows() -> None:
    constraint = migrations.AddConstraint("run", check("x", Q(steps_used__lt=9)))
    assert codes(constraint) == ["narrows", "locks"]
    unique = models.UniqueConstraint(fields=["conversation"], name="x")
    assert codes(migrations.AddConstraint("run", unique)) == ["narrows", "locks"]


@pytest.mark.parametrize(
    "operation",
    [
        add(models.TextField(null=True)),
        add(models.TextField(default="", db_default="")),
        add(models.ForeignKey("agents.Run", models.PROTECT, null=True, db_index=False)),
        postgres.AddIndexConcurrently("run", INDEX),
        postgres.RemoveIndexConcurrently("run", "run_unfinished"),
        migrations.RemoveConstraint("run", "run_state_known"),
        migrations.AlterField("run", "tier", models.CharField("other", max_length=80)),
        migrations.AlterField("run", "tier", models.TextField()),
        migrations.AlterModelOptions("run", {"verbose_name": "x"}),
        migrations.SeparateDatabaseAndState(
            state_operations=[migrations.RemoveField("run", "lease_until")]
        ),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_what_does_no_harm_is_not_refused(operation: Operation) -> None:
    assert codes(operation) == []


def test_a_small_table_is_locked_for_a_moment_only() -> None:
    index = models.Index(fields=["name"], name="fresh_index")
    assert codes(migrations.AddIndex("tenant", index), label="tenancy") == []


def test_a_column_that_the_models_forget_must_do_without_a_value() -> None:
    forget = migrations.RemoveField("run", "tier")
    assert codes(migrations.SeparateDatabaseAndState(state_operations=[forget])) == ["no_default"]


def test_what_hides_in_a_separate_operation_is_found() -> None:
    inner = migrations.RemoveField("run", "route")
    assert codes(migrations.SeparateDatabaseAndState(database_operations=[inner])) == ["drops"]


def test_a_new_table_may_be_made_as_one_likes() -> None:
    made = migrations.CreateModel("Fresh", [("id", models.BigAutoField(primary_key=True))])
    rest = [
        add(models.TextField(), "fresh"),
        migrations.AddIndex("fresh", models.Index(fields=["fresh"], name="fresh_index")),
        migrations.AddConstraint("fresh", check("x", Q(fresh="a"))),
        enable_rls("agents_fresh"),
        append_only("agents_fresh"),
        migrations.RemoveField("fresh", "fresh"),
    ]
    assert codes(made, *rest) == []
    assert codes(made, enable_rls("agents_fresh", "agents_run")) == ["sql"]


def test_a_constraint_over_new_columns_only_asks_nothing_of_old_code() -> None:
    field = add(models.IntegerField(default=1, db_default=1))
    assert codes(field, postgres.AddConstraintNotValid("run", check("x", Q(fresh=1)))) == []
    mixed = check("x", Q(fresh=1) | Q(tier="a"))
    assert codes(field, postgres.AddConstraintNotValid("run", mixed)) == ["narrows"]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from approvals.models import State", ["approvals.models.State"]),
        (
            "from approvals.models import State, Gate as G",
            ["approvals.models.State", "approvals.models.Gate"],
        ),
        ("from approvals import models", ["approvals.models"]),
        ("from approvals import models as old, ports", ["approvals.models"]),
        ("import approvals.models", ["approvals.models"]),
        ("import approvals.models as old", ["approvals.models"]),
        ("import os, agents.models.runs", ["agents.models.runs"]),
        ("from agents.models.runs import Run", ["agents.models.runs.Run"]),
        ("from .. import models", ["..models"]),
        ("from ..models import State", ["..models.State"]),
        ("from guardian import models", ["guardian.models"]),
        ("def move(apps, editor):\n    from approvals import models", ["approvals.models"]),
        ("from django.db import migrations, models", []),
        ("import django.db.models.functions", []),
        ("from django.contrib.auth import models", []),
        ("from boxoffice.common.transitions import machine", []),
        ("from approvals import modelsettings", []),
    ],
)
def test_a_migration_that_takes_the_models_code_is_found(source: str, names: list[str]) -> None:
    assert upgrades.models_imported(source) == names


def test_the_product_has_nothing_to_refuse() -> None:
    assert [f"{one.migration}: {one.code}: {one.what}" for one in upgrades.check()] == []


def test_a_released_migration_that_changes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = upgrades.released_path().read_text()
    released = tmp_path / "released.txt"
    lines = [
        line[:-1] + "x" if line.startswith("audit 0001") else line for line in text.split("\n")
    ]
    released.write_text("\n".join(lines))
    monkeypatch.setattr(upgrades, "released_path", lambda: released)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("check_migrations", "--json", stdout=out)
    assert ended.value.code == 3
    (found,) = json.loads(out.getvalue())
    assert (found["migration"], found["code"]) == ("audit.0001_initial", "changed")
    assert found["hint"]


def test_a_release_records_all_migrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = tmp_path / "released.txt"
    released.write_text(upgrades.released_path().read_text())
    monkeypatch.setattr(upgrades, "released_path", lambda: released)
    before, out = released.read_text(), StringIO()
    call_command("check_migrations", "--freeze", "--dry-run", stdout=out)
    assert released.read_text() == before
    call_command("check_migrations", "--freeze")
    assert released.read_text() == out.getvalue()
    assert set(upgrades.released_read()) == {
        key for key in MigrationLoader(None).disk_migrations if key[0] in {*OWN}
    }
    assert upgrades.check() == []


OWN = ("acquirer", "agents", "approvals", "audit", "billing", "tenancy", "ticketing", "tools")


@pytest.mark.django_db
def test_the_release_before_can_insert_into_every_table() -> None:
    """A column that it does not know of has a value of its own, or none."""
    loader, released = MigrationLoader(None), upgrades.released_read()
    nodes = [key for key in loader.graph.leaf_nodes() if key[0] not in OWN]
    old = loader.project_state([*nodes, *released])
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND is_nullable = 'NO' "
            "AND column_default IS NULL AND is_identity = 'NO'"
        )
        needed = set(cursor.fetchall())
    unknown = []
    for model in old.apps.get_models():
        if model._meta.app_label in OWN:
            table = model._meta.db_table
            known = {field.column for field in model._meta.local_fields}
            unknown += [(t, c) for t, c in needed if t == table and c not in known]
    assert unknown == []


@pytest.mark.django_db
def test_a_row_of_the_release_before_gets_the_defaults() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO tenancy_tenant (id, slug, name, time_zone, language, currency, is_active, "
            "created_at) VALUES (gen_random_uuid(), 'old', 'old', 'UTC', 'en', 'BRL', true, now())"
        )
    tenant = Tenant.objects.get(slug="old")
    assert (tenant.share, tenant.max_concurrent_runs) == (10, 100)

"""The query that forgot its scope: the database shows it nothing and lets it change nothing."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.db import connection, models, transaction
from django.db.utils import DatabaseError

from boxoffice.tenancy.models import TenantModel
from boxoffice.tenancy.scope import operator_scope
from tests.isolation.conftest import Life

MODELS = [model for model in apps.get_models() if issubclass(model, TenantModel)]
ROW_SECURITY = "42501"
# Before that, a trigger of these looks for the row's parent, which it does not see either.
PARENT_NOT_SEEN = {"approvals_decision": "23503", "agents_step": "23514"}

each_table = pytest.mark.parametrize("model", MODELS, ids=lambda model: model._meta.db_table)


def ask(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    """Plain SQL as the application sends it; nothing adds a tenant."""
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters or [])
        return cursor.fetchall() if cursor.description else [(cursor.rowcount,)]


def tenants_in(table: str) -> set[UUID]:
    return {row[0] for row in ask(f"SELECT DISTINCT tenant_id FROM {table}")}


@each_table
def test_there_is_something_to_see_in_both_tenants(
    arena: Life, teatro: Life, model: type[models.Model]
) -> None:
    with operator_scope("test"):
        seen = tenants_in(model._meta.db_table)
    assert seen == {arena.cast.tenant.pk, teatro.cast.tenant.pk}


@each_table
def test_without_a_scope_nothing_is_seen(
    arena: Life, teatro: Life, model: type[models.Model]
) -> None:
    assert ask(f"SELECT count(*) FROM {model._meta.db_table}") == [(0,)]


@each_table
def test_in_a_tenants_scope_only_its_own_is_seen(
    arena: Life, teatro: Life, model: type[models.Model]
) -> None:
    for life in (arena, teatro):
        with life.cast.scope():
            assert tenants_in(model._meta.db_table) == {life.cast.tenant.pk}


@each_table
def test_what_is_not_seen_is_neither_changed_nor_removed(
    arena: Life, teatro: Life, model: type[models.Model]
) -> None:
    table = model._meta.db_table
    theirs = [arena.cast.tenant.pk]
    with teatro.cast.scope():
        assert ask(f"UPDATE {table} SET tenant_id = tenant_id WHERE tenant_id = %s", theirs) == [
            (0,)
        ]
        assert ask(f"DELETE FROM {table} WHERE tenant_id = %s", theirs) == [(0,)]
    assert ask(f"UPDATE {table} SET tenant_id = tenant_id") == [(0,)]
    assert ask(f"DELETE FROM {table}") == [(0,)]


@each_table
def test_a_row_is_not_put_under_another_tenant(
    arena: Life, teatro: Life, model: type[models.Model]
) -> None:
    columns, values = copy_of_a_row(model, arena)
    statement = (
        f"INSERT INTO {model._meta.db_table} ({', '.join(columns)}) "
        f"VALUES ({', '.join(['%s'] * len(columns))})"
    )
    with teatro.cast.scope(), pytest.raises(DatabaseError) as refused, transaction.atomic():
        ask(statement, values)
    expected = PARENT_NOT_SEEN.get(model._meta.db_table, ROW_SECURITY)
    assert getattr(refused.value.__cause__, "sqlstate", "") == expected


def copy_of_a_row(model: type[models.Model], life: Life) -> tuple[list[str], list[Any]]:
    """A row of the tenant with a key of its own, in its first state."""
    fields = [field for field in model._meta.concrete_fields if not field.generated]
    with life.cast.scope():
        row = model._default_manager.all()[0]  # type: ignore[attr-defined]
    values = {}
    for field in fields:
        if field.primary_key:
            if isinstance(field, models.UUIDField):
                values[field.column] = uuid4()
            continue
        value = field.value_from_object(row)
        if field.name in {"state", "status"}:
            value = field.get_default()
        values[field.column] = field.get_db_prep_save(value, connection)
    return [f'"{column}"' for column in values], list(values.values())

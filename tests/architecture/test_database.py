"""What the database itself holds, whatever the code does."""

from collections import defaultdict

import pytest
from django.apps import apps
from django.db import connection, models

from boxoffice.tenancy.models import TenantModel
from boxoffice.tenancy.postgres.base import APP_ROLE

pytestmark = pytest.mark.django_db

OURS = ("boxoffice.", "approvals", "tools", "agents")
TENANT_MODELS = [model for model in apps.get_models() if issubclass(model, TenantModel)]
OWN_MODELS = [model for model in apps.get_models() if model.__module__.startswith(OURS)]


def ask(query: str, parameters: list[object] | None = None) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or [])
        return list(cursor.fetchall())


def test_there_is_something_to_look_at() -> None:
    assert len(TENANT_MODELS) > 20


def test_every_tenant_owned_table_is_kept_apart_by_the_database() -> None:
    secured = {
        name
        for (name,) in ask(
            "SELECT c.relname FROM pg_class c JOIN pg_policies p ON p.tablename = c.relname "
            "WHERE c.relrowsecurity AND c.relforcerowsecurity AND p.permissive = 'PERMISSIVE' "
            "AND p.cmd = 'ALL' AND p.qual LIKE '%%boxoffice.tenant%%tenant_id%%' "
            "AND p.with_check = p.qual"
        )
    }
    assert {model._meta.db_table for model in TENANT_MODELS} - secured == set()


def test_no_policy_is_beside_the_one_of_the_tenant() -> None:
    policies = defaultdict(set)
    for table, name in ask("SELECT tablename, policyname FROM pg_policies"):
        policies[table].add(name)
    assert {table for table, names in policies.items() if names != {"tenant_isolation"}} == set()


def test_no_table_with_a_tenant_was_forgotten() -> None:
    tables = {
        name
        for (name,) in ask(
            "SELECT table_name FROM information_schema.columns "
            "WHERE column_name = 'tenant_id' AND table_schema = 'public'"
        )
    }
    assert tables == {model._meta.db_table for model in TENANT_MODELS}


def test_every_tenant_owned_table_has_an_index_led_by_the_tenant() -> None:
    led = {
        name
        for (name,) in ask(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0] "
            "WHERE a.attname = 'tenant_id' AND i.indisvalid AND i.indpred IS NULL"
        )
    }
    assert {model._meta.db_table for model in TENANT_MODELS} - led == set()


def status_fields() -> list[models.Field]:  # type: ignore[type-arg]
    return [
        field
        for model in OWN_MODELS
        for field in model._meta.concrete_fields
        if field.name in {"state", "status"} and field.choices
    ]


def test_every_status_column_knows_its_words() -> None:
    assert len(status_fields()) >= 9
    for field in status_fields():
        table = field.model._meta.db_table
        checks = " ".join(
            str(text)
            for (text,) in ask(
                "SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k "
                "JOIN pg_attribute a ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) "
                "WHERE k.contype = 'c' AND k.conrelid = %s::regclass AND a.attname = %s",
                [table, field.column],
            )
        )
        missing = [value for value, _ in field.flatchoices if f"'{value}'" not in checks]
        assert missing == [], f"{table}.{field.column}: {checks}"


def test_every_status_column_is_guarded_against_impossible_moves() -> None:
    guarded = {name for (name,) in ask("SELECT tgname FROM pg_trigger WHERE NOT tgisinternal")}
    names = {f"{field.model._meta.db_table}_{field.column}_guard" for field in status_fields()}
    assert names - guarded == set()


def test_the_application_role_owns_nothing_and_bypasses_nothing() -> None:
    assert ask(
        "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolcanlogin "
        "FROM pg_roles WHERE rolname = %s",
        [APP_ROLE],
    ) == [(False, False, False, False, False)]
    for catalogue, owner in (
        ("pg_class", "relowner"),
        ("pg_proc", "proowner"),
        ("pg_namespace", "nspowner"),
        ("pg_type", "typowner"),
        ("pg_database", "datdba"),
    ):
        owned = ask(
            f"SELECT count(*) FROM {catalogue} WHERE {owner} = %s::regrole::oid", [APP_ROLE]
        )
        assert owned == [(0,)], catalogue


def test_the_application_role_may_not_switch_the_guards_off() -> None:
    tables = [model._meta.db_table for model in OWN_MODELS]
    rights = ask(
        "SELECT t, has_table_privilege(%s, t, 'TRUNCATE'), has_table_privilege(%s, t, 'TRIGGER') "
        "FROM unnest(%s::text[]) AS t",
        [APP_ROLE, APP_ROLE, tables],
    )
    assert {table for table, truncate, trigger in rights if truncate or trigger} == set()
    assert ask("SELECT has_schema_privilege(%s, 'public', 'CREATE')", [APP_ROLE]) == [(False,)]

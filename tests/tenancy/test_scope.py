"""Two layers keep tenants apart; each is enough alone."""

import pytest
from django.db import connection, transaction

from boxoffice.tenancy.models import Tenant, Tier
from boxoffice.tenancy.scope import (
    ScopeConflict,
    ScopeMissing,
    operator_scope,
    tenant_scope,
    tenants_scope,
)


@pytest.fixture
def pair(transactional_db: None) -> tuple[Tenant, Tenant]:
    one, two = (Tenant.objects.create(slug=slug, name=slug) for slug in ("one", "two"))
    for tenant in (one, two):
        with tenant_scope(tenant.pk):
            Tier.objects.create(slug="free", name=f"free of {tenant.slug}", model_alias="m")
    return one, two


def raw_names() -> list[str]:
    """The query that forgot its filter."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT name FROM tenancy_tier ORDER BY name")
        return [row[0] for row in cursor.fetchall()]


def test_a_query_without_a_scope_raises(pair: tuple[Tenant, Tenant]) -> None:
    with pytest.raises(ScopeMissing):
        Tier.objects.count()


def test_a_forgotten_filter_shows_nothing_without_a_scope(pair: tuple[Tenant, Tenant]) -> None:
    assert raw_names() == []


def test_a_forgotten_filter_shows_only_the_open_tenant(pair: tuple[Tenant, Tenant]) -> None:
    one, two = pair
    with tenant_scope(one.pk):
        assert raw_names() == ["free of one"]
    with tenant_scope(two.pk):
        assert raw_names() == ["free of two"]
    assert raw_names() == []


def test_a_rollback_does_not_bring_an_old_scope_back(pair: tuple[Tenant, Tenant]) -> None:
    one, two = pair
    with tenant_scope(one.pk):
        assert raw_names() == ["free of one"]
    with tenant_scope(two.pk):
        with pytest.raises(RuntimeError), transaction.atomic():
            assert raw_names() == ["free of two"]
            raise RuntimeError
        assert raw_names() == ["free of two"]


def test_a_failed_savepoint_keeps_the_scope(pair: tuple[Tenant, Tenant]) -> None:
    one, _ = pair
    with transaction.atomic(), tenant_scope(one.pk):
        with pytest.raises(RuntimeError), transaction.atomic():
            assert raw_names() == ["free of one"]
            raise RuntimeError
        assert raw_names() == ["free of one"]


def test_the_operator_and_a_group_of_tenants_see_their_own(pair: tuple[Tenant, Tenant]) -> None:
    with operator_scope("test"):
        assert len(raw_names()) == Tier.objects.count() == 2
    with tenants_scope([tenant.pk for tenant in pair], "test"):
        assert len(raw_names()) == Tier.objects.count() == 2
    with tenants_scope([], "test"):
        assert raw_names() == []


def test_a_scope_is_never_widened(pair: tuple[Tenant, Tenant]) -> None:
    one, two = pair
    with tenant_scope(one.pk):
        with pytest.raises(ScopeConflict), tenant_scope(two.pk):
            pass
        with pytest.raises(ScopeConflict), operator_scope("test"):
            pass


def test_a_row_of_another_tenant_is_refused_by_both_layers(pair: tuple[Tenant, Tenant]) -> None:
    one, two = pair
    with tenant_scope(one.pk):
        with pytest.raises(ScopeMissing):
            Tier.objects.create(tenant=two, slug="x", name="x", model_alias="m")
        with pytest.raises(Exception, match="row-level security"), transaction.atomic():
            Tier.objects.bulk_create([Tier(tenant=two, slug="x", name="x", model_alias="m")])


def test_the_application_role_owns_nothing_and_is_no_superuser(pair: tuple[Tenant, Tenant]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, rolsuper, rolbypassrls, "
            "(SELECT count(*) FROM pg_class WHERE relowner = pg_roles.oid) "
            "FROM pg_roles WHERE rolname = current_user"
        )
        assert cursor.fetchone() == ("boxoffice_app", False, False, 0)

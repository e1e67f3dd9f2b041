"""Two tenants, and a way round the guards for tests that play the attacker."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction

from boxoffice.audit import services
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope

GUARDED = ["audit_auditrecord", "audit_auditseal", "audit_cluster"]
type Write = Callable[..., AuditRecord]


@pytest.fixture
def arena(db: None) -> Tenant:
    return Tenant.objects.create(slug="arena", name="Arena")


@pytest.fixture
def teatro(db: None) -> Tenant:
    return Tenant.objects.create(slug="teatro", name="Teatro")


@pytest.fixture
def write() -> Write:
    """Write a record, in a transaction of its own."""

    def make(tenant: Tenant, **changes: Any) -> AuditRecord:
        fields = {"action": "orders.order.placed", "actor": "user:1", "target": "order:1"} | changes
        with tenant_scope(tenant.pk), transaction.atomic():
            return services.record(**fields)

    return make


@pytest.fixture
def owner(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    """The owner of the tables, who has switched their triggers off."""
    options = connection.get_connection_params()
    options = {k: v for k, v in options.items() if k in {"dbname", "user", "host", "port"}}
    with psycopg.connect(**options, autocommit=True) as login:
        login.execute("SELECT set_config('boxoffice.tenant', '*', false)")
        for table in GUARDED:
            login.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield login
        for table in GUARDED:
            login.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")

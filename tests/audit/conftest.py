"""Two tenants, and a way round the guards for tests that play the attacker."""

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import transaction

from boxoffice.audit import services
from boxoffice.audit.models import AuditRecord
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tests.support.guards import unguarded

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
    with unguarded(*GUARDED) as login:
        yield login

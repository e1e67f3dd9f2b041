"""Records are written with what they tell of, and stay."""

import pytest
from django.db import Error, connection, transaction

from boxoffice.audit import services
from boxoffice.audit.models import AuditRecord, AuditSeal
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import ScopeMissing, tenant_scope
from tests.audit.conftest import Write


@pytest.mark.django_db(transaction=True)
def test_it_needs_a_transaction(arena: Tenant) -> None:
    with tenant_scope(arena.pk), pytest.raises(transaction.TransactionManagementError):
        services.record(action="a.b.done", actor="user:1")


def test_it_needs_a_tenant(arena: Tenant) -> None:
    with pytest.raises(ScopeMissing):
        services.record(action="a.b.done", actor="user:1")


def test_it_goes_with_what_it_tells_of(arena: Tenant) -> None:
    with tenant_scope(arena.pk):
        with pytest.raises(RuntimeError), transaction.atomic():
            services.record(action="a.b.done", actor="user:1")
            raise RuntimeError
        assert not AuditRecord.objects.exists()


def test_the_sequence_rises(arena: Tenant, write: Write) -> None:
    records = [write(arena) for _ in range(3)]
    numbers = [record.sequence for record in records]
    assert numbers == sorted(set(numbers))


@pytest.mark.django_db(transaction=True)
def test_the_database_says_which_transaction_wrote_it(arena: Tenant, write: Write) -> None:
    first, second = write(arena), write(arena)
    assert 0 < first.position < second.position
    with tenant_scope(arena.pk):
        forged = AuditRecord.objects.create(action="x", actor="y", position=7)
        assert forged.position > second.position
        assert AuditRecord.objects.get(pk=forged.pk).position == forged.position


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE audit_auditrecord SET actor = 'user:2'",
        "DELETE FROM audit_auditrecord",
        "UPDATE audit_auditseal SET digest = ''",
        "DELETE FROM audit_auditseal",
        "UPDATE audit_cluster SET turn = 9",
    ],
)
def test_nothing_is_changed_or_removed(arena: Tenant, write: Write, statement: str) -> None:
    write(arena)
    with tenant_scope(arena.pk):
        AuditSeal.objects.create(
            number=1, from_position=0, below_position=1, records=0, digest="d" * 64
        )
        with (
            pytest.raises(Error, match="append-only"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement)


def test_the_application_may_not_truncate(arena: Tenant) -> None:
    with (
        pytest.raises(Error, match="permission denied"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute("TRUNCATE audit_auditrecord")


def test_another_tenant_sees_nothing(arena: Tenant, teatro: Tenant, write: Write) -> None:
    write(arena)
    with tenant_scope(teatro.pk), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM audit_auditrecord")
        assert cursor.fetchone() == (0,)
    with tenant_scope(arena.pk), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM audit_auditrecord")
        assert cursor.fetchone() == (1,)

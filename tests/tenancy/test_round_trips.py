"""What has no answer travels with the next statement, and no transaction loses by it."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import psycopg
import pytest
from django.db import DataError, ProgrammingError, connection, transaction
from django.db.models import F

from boxoffice.common.batch import Batch, Chosen
from boxoffice.tenancy.models import Tenant, Tier
from boxoffice.tenancy.postgres.base import check_connection
from boxoffice.tenancy.scope import tenant_scope


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    made = Tenant.objects.create(slug="one", name="one")
    with tenant_scope(made.pk):
        Tier.objects.create(slug="free", name="free", model_alias="m")
    return made


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """Every message sent to the server, in order; commits and rollbacks go another way."""
    sent: list[str] = []
    real: Callable[..., Any] = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        sent.append(query if isinstance(query, str) else query.as_string(self))
        return real(self, query, *args, **options)

    with mock.patch.object(psycopg.Cursor, "execute", noted):
        yield sent


def name_of(slug: str) -> str:
    return Tier.objects.get(slug=slug).name


def break_something() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")


def test_a_transaction_of_two_statements_is_two_messages(
    tenant: Tenant, messages: list[str]
) -> None:
    with tenant_scope(tenant.pk):
        with transaction.atomic():
            Tier.objects.update(name="a")
            with transaction.atomic():
                Tier.objects.update(name="b")
        assert len(messages) == 2
        assert messages[0].startswith("BEGIN; UPDATE")
        assert messages[1].startswith("SAVEPOINT")
        assert name_of("free") == "b"


def test_a_batch_with_its_commit_is_one_message(tenant: Tenant, messages: list[str]) -> None:
    batch = Batch()
    batch.add("SELECT pg_advisory_xact_lock(%s)", [1])
    batch.update(
        Tier, changes={"name": "%s"}, where={"slug": Chosen("SELECT 'free'")}, returning=["slug"]
    )
    with tenant_scope(tenant.pk):
        locked, changed = batch.commit()
        assert len(messages) == 1
        assert messages[0].startswith("BEGIN; ")
        assert messages[0].endswith("COMMIT")
        assert (len(locked.rows), changed.count, changed.rows) == (1, 1, [("free",)])
        assert name_of("free") == "%s"


def test_a_batch_that_fails_commits_nothing(tenant: Tenant) -> None:
    batch = Batch()
    batch.update(Tier, changes={"name": "b"}, where={"slug": "free"})
    batch.add("SELECT 1 / 0")
    with tenant_scope(tenant.pk):
        with pytest.raises(DataError):
            batch.commit()
        assert name_of("free") == "free"


def test_a_batch_with_its_commit_ends_no_transaction_of_others(tenant: Tenant) -> None:
    batch = Batch()
    batch.update(Tier, changes={"name": "b"}, where={"slug": "free"})
    with tenant_scope(tenant.pk):
        with transaction.atomic(), pytest.raises(RuntimeError):
            batch.commit()
        assert name_of("free") == "free"


def test_a_new_scope_is_told_inside_the_transaction(tenant: Tenant, messages: list[str]) -> None:
    with transaction.atomic(), tenant_scope(tenant.pk):
        Tier.objects.update(name="a")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM tenancy_tier")
        assert cursor.fetchone() == (0,)
    assert len(messages) == 2
    assert messages[1].startswith("BEGIN; SELECT set_config('boxoffice.tenant', '', false); SELECT")


def test_an_empty_transaction_sends_nothing(tenant: Tenant, messages: list[str]) -> None:
    with transaction.atomic(), transaction.atomic():
        pass
    assert messages == []


def test_the_row_count_is_that_of_the_statement(tenant: Tenant) -> None:
    with tenant_scope(tenant.pk), transaction.atomic():
        assert Tier.objects.filter(slug="free").update(name="a") == 1
        assert Tier.objects.filter(slug="none").update(name="a") == 0


def test_a_scope_stays_with_a_pooled_connection(tenant: Tenant, messages: list[str]) -> None:
    with tenant_scope(tenant.pk):
        for _ in range(3):
            name_of("free")
            connection.close()
    assert len(messages) == 3
    assert not [message for message in messages if "set_config" in message]


def test_an_outer_rollback_undoes_everything(tenant: Tenant) -> None:
    with tenant_scope(tenant.pk):
        with pytest.raises(RuntimeError), transaction.atomic():
            Tier.objects.update(name="a")
            raise RuntimeError
        assert name_of("free") == "free"


@pytest.mark.parametrize("touches_first", [True, False])
def test_a_failed_savepoint_undoes_its_part_alone(tenant: Tenant, touches_first: bool) -> None:
    with tenant_scope(tenant.pk):
        with transaction.atomic():
            if touches_first:
                Tier.objects.update(max_steps=F("max_steps") + 1)
            with pytest.raises(DataError), transaction.atomic():
                Tier.objects.update(name="lost")
                break_something()
            with pytest.raises(RuntimeError), transaction.atomic():
                raise RuntimeError
            Tier.objects.update(slug="kept")
        kept = Tier.objects.get(slug="kept")
        assert kept.name == "free"
        assert kept.max_steps == 12 + touches_first


def test_a_failed_transaction_that_nobody_noticed_is_noticed_at_its_savepoint(
    tenant: Tenant,
) -> None:
    with tenant_scope(tenant.pk):
        with (
            pytest.raises(Exception, match="current transaction is aborted"),
            transaction.atomic(),
            transaction.atomic(),
        ):
            Tier.objects.update(name="lost")
            with pytest.raises(DataError):
                break_something()
        assert name_of("free") == "free"


@pytest.mark.parametrize("statement", ["SELECT %s %s", "THIS IS NOT SQL"])
def test_a_statement_that_could_not_be_understood_leaves_the_transaction_whole(
    tenant: Tenant, statement: str
) -> None:
    parameters = [1] if "%" in statement else None
    with tenant_scope(tenant.pk):
        with pytest.raises(RuntimeError), transaction.atomic():
            with pytest.raises(ProgrammingError), connection.cursor() as cursor:
                cursor.execute(statement, parameters)
            Tier.objects.update(name="lost")
            raise RuntimeError
        assert name_of("free") == "free"


def test_percent_signs_and_cursors_on_the_server_are_left_alone(tenant: Tenant) -> None:
    with tenant_scope(tenant.pk), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT '100%'")
            assert cursor.fetchone() == ("100%",)
        assert [tier.slug for tier in Tier.objects.iterator(chunk_size=1)] == ["free"]
    with tenant_scope(tenant.pk):
        assert [tier.slug for tier in Tier.objects.iterator(chunk_size=1)] == ["free"]


def test_a_limit_holds_for_the_rest_of_the_transaction_and_no_longer(tenant: Tenant) -> None:
    with transaction.atomic():
        connection.limit_statements(1.5)
        assert _timeout() == "1500ms"
        assert _timeout() == "1500ms"
    assert _timeout() == "0"


def test_batch_work_may_rest_until_the_end_of_its_transaction(tenant: Tenant) -> None:
    usual = _timeout("idle_in_transaction_session_timeout")
    with transaction.atomic():
        connection.allow_pauses()
        assert _timeout("idle_in_transaction_session_timeout") == "0"
    assert _timeout("idle_in_transaction_session_timeout") == usual != "0"


def _timeout(name: str = "statement_timeout") -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        return str(cursor.fetchone()[0])


def test_a_pooled_connection_that_the_server_ended_is_replaced(tenant: Tenant) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (first,) = cursor.fetchone()
    connection.close()
    with psycopg.connect(**_as_owner()) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [first])
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        assert cursor.fetchone()[0] != first


def _as_owner() -> dict[str, Any]:
    kwargs = connection.get_connection_params()
    return {name: kwargs[name] for name in ("dbname", "user", "host")}


def test_a_connection_that_rested_long_is_asked(tenant: Tenant, messages: list[str]) -> None:
    connection.ensure_connection()
    raw = connection.connection
    raw.boxoffice_idle_since = None
    check_connection(raw)
    assert messages[-1] == "SELECT clock_timestamp()"

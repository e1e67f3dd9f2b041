"""Statements that travel together: each text is prepared once, whatever fails on its way."""

from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock
from uuid import UUID

import psycopg
import pytest
from django.db import DataError, IntegrityError, connection, transaction

from boxoffice.common.batch import Batch, loaded
from boxoffice.tenancy.models import Tenant, Tier
from boxoffice.tenancy.scope import tenant_scope


@pytest.fixture
def tenants(transactional_db: None) -> list[Tenant]:
    made = [Tenant.objects.create(slug=slug, name=slug) for slug in ("one", "two")]
    for tenant in made:
        with tenant_scope(tenant.pk):
            Tier.objects.create(slug=f"of-{tenant.slug}", name="free", model_alias="m")
    connection.close()
    return made


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """Every message sent to the server, in order."""
    sent: list[str] = []
    real: Callable[..., Any] = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        sent.append(query if isinstance(query, str) else query.as_string(self))
        return real(self, query, *args, **options)

    with mock.patch.object(psycopg.Cursor, "execute", noted):
        yield sent


def ask(text: str, *values: Any) -> list[tuple[Any, ...]]:
    batch = Batch()
    batch.add(text, values)
    (answer,) = batch.send()
    return answer.rows


def slugs() -> list[str]:
    """Slugs of all tiers that can be seen: no condition but the database's own."""
    with transaction.atomic():
        return [slug for (slug,) in ask("SELECT slug FROM tenancy_tier ORDER BY slug")]


def test_a_text_is_prepared_once_for_a_connection(
    tenants: list[Tenant], messages: list[str]
) -> None:
    with tenant_scope(tenants[0].pk):
        for number in (1, 2, 3):
            with transaction.atomic():
                assert ask("SELECT %s::int + %s::int", number, 1) == [(number + 1,)]
    said = [text for text in messages if "batch_" in text]
    assert [text.count("PREPARE") for text in said] == [1, 0, 0]


def test_a_prepared_text_sees_the_tenant_of_the_moment(tenants: list[Tenant]) -> None:
    one, two = tenants
    # More often than PostgreSQL waits before it settles on one plan for all values.
    for _ in range(8):
        with tenant_scope(one.pk):
            assert slugs() == ["of-one"]
        with tenant_scope(two.pk):
            assert slugs() == ["of-two"]
        assert slugs() == []


def test_several_statements_answer_in_their_order(tenants: list[Tenant]) -> None:
    with tenant_scope(tenants[0].pk), transaction.atomic():
        for _ in range(2):
            batch = Batch()
            batch.add("SELECT 1")
            batch.update(Tier, changes={"name": "n"}, where={"tenant_id": tenants[0].pk})
            batch.select(Tier, "WHERE tenant_id = %s", [tenants[0].pk])
            batch.add("SELECT 2 WHERE %s = 'a'", ["a"])
            one, moved, rows, two = batch.send()
            assert one.rows == [(1,)]
            assert moved.count == 1
            assert [tier.name for tier in loaded(Tier, rows)] == ["n"]
            assert two.rows == [(2,)]


@pytest.mark.parametrize("breaks_first", [True, False])
def test_a_message_that_fails_while_texts_are_new_costs_nothing_later(
    tenants: list[Tenant], breaks_first: bool
) -> None:
    texts = [("SELECT 1 / %s::int", [0]), ("SELECT %s::int", [5])]
    batch = Batch()
    for text, values in texts if breaks_first else reversed(texts):
        batch.add(text, values)
    with tenant_scope(tenants[0].pk):
        with pytest.raises(DataError), transaction.atomic():
            batch.send()
        for _ in range(2):
            with transaction.atomic():
                assert ask("SELECT %s::int", 5) == [(5,)]
                assert ask("SELECT 1 / %s::int", 1) == [(1,)]


def test_what_is_prepared_outlives_a_rollback(tenants: list[Tenant], messages: list[str]) -> None:
    def rename(name: str, is_kept: bool) -> None:
        batch = Batch()
        batch.update(Tier, changes={"name": name}, where={"tenant_id": tenants[0].pk})
        with transaction.atomic():
            batch.send()
            transaction.set_rollback(not is_kept)

    with tenant_scope(tenants[0].pk):
        rename("a", is_kept=False)
        rename("b", is_kept=True)
        assert [tier.name for tier in Tier.objects.all()] == ["b"]
    assert sum(text.count("PREPARE") for text in messages) == 1


def test_a_refused_row_leaves_the_connection_usable(tenants: list[Tenant]) -> None:
    def add(tier_id: UUID | None = None) -> UUID:
        row = Tier(tenant_id=tenants[0].pk, slug="extra", name="e", model_alias="m")
        if tier_id is not None:
            row.pk = tier_id
        batch = Batch()
        batch.insert(row)
        with transaction.atomic():
            batch.send()
        return row.pk

    with tenant_scope(tenants[0].pk):
        made = add()
        with pytest.raises(IntegrityError):
            add(made)
        Tier.objects.filter(pk=made).delete()
        assert add() != made

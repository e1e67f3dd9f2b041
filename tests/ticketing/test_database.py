"""What the database itself refuses, whatever the code does."""

from typing import Any

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction

from boxoffice.tenancy.models import TenantModel
from boxoffice.tenancy.scope import operator_scope, tenant_scope
from boxoffice.ticketing.models import Hold, Order, OutboundEmail, SeatClaim
from boxoffice.ticketing.services.emails import email_queue
from boxoffice.ticketing.services.holds import hold_create
from boxoffice.ticketing.services.tickets import ticket_create
from tests.ticketing.buying import order_place, order_refund
from tests.ticketing.factory import House, make_house

MODELS = list(apps.get_app_config("ticketing").get_models())
TABLES = [model._meta.db_table for model in MODELS]


def fill(house: House) -> None:
    """At least one row in every table."""
    with tenant_scope(house.tenant.pk):
        user_id = house.ana.pk
        hold = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=user_id)
        order = order_place(hold_id=hold.pk, user_id=user_id, payment_key="k")
        order_refund(order_id=order.pk, user_id=user_id, reason="chuva", refund_key="r")
        ticket_create(subject="Oi", body="Oi", user_id=user_id, key="t")
        email_queue(to="a@example.com", subject="Oi", body="Oi", user_id=user_id, key="e")


def tenants_seen(table: str) -> set[Any]:
    """The query that forgot its filter."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT DISTINCT tenant_id FROM {table}")
        return {row[0] for row in cursor.fetchall()}


@pytest.fixture
def pair(db: None) -> tuple[House, House]:
    houses = make_house("arena"), make_house("teatro")
    for house in houses:
        fill(house)
    return houses


def test_every_model_is_a_tenants(db: None) -> None:
    assert all(issubclass(model, TenantModel) for model in MODELS)
    assert len(TABLES) == 12


@pytest.mark.parametrize("table", TABLES)
def test_a_forgotten_filter_shows_only_the_open_tenant(
    pair: tuple[House, House], table: str
) -> None:
    ids = {house.tenant.pk for house in pair}
    assert tenants_seen(table) == set()
    with tenant_scope(pair[0].tenant.pk):
        assert tenants_seen(table) == {pair[0].tenant.pk}
    with operator_scope("test"):
        assert tenants_seen(table) == ids


@pytest.mark.parametrize("table", TABLES)
def test_rows_cannot_be_moved_to_or_taken_from_another_tenant(
    pair: tuple[House, House], table: str
) -> None:
    one, two = pair
    with tenant_scope(one.tenant.pk), connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table} SET tenant_id = %s WHERE tenant_id = %s",
            [one.tenant.pk, two.tenant.pk],
        )
        assert cursor.rowcount == 0
        with pytest.raises(Exception, match="row-level security"), transaction.atomic():
            cursor.execute(f"UPDATE {table} SET tenant_id = %s", [two.tenant.pk])


def test_a_seat_has_one_live_claim(house: House) -> None:
    hold = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk)
    other = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A2"), user_id=house.fabio.pk)
    claim = SeatClaim.objects.get(hold=hold)
    with pytest.raises(IntegrityError, match="seatclaim_one_live_per_seat"), transaction.atomic():
        SeatClaim.objects.create(
            event=house.event, seat_id=claim.seat_id, hold=other, price_minor=1
        )


@pytest.mark.parametrize("status", ["active", "lost", ""])
def test_a_hold_that_is_over_does_not_come_back(house: House, status: str) -> None:
    hold = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk)
    order_place(hold_id=hold.pk, user_id=house.ana.pk, payment_key="k")
    with pytest.raises(IntegrityError, match="cannot go from converted"), transaction.atomic():
        Hold.objects.filter(pk=hold.pk).update(status=status)


def test_a_refunded_order_is_not_paid_again(house: House) -> None:
    fill(house)
    with pytest.raises(IntegrityError, match="cannot go from refunded"), transaction.atomic():
        Order.objects.update(status="paid")


def test_nothing_begins_at_its_end(house: House) -> None:
    hold = Hold(
        event=house.event, user=house.ana, expires_at=house.event.starts_at, status="expired"
    )
    with pytest.raises(IntegrityError, match="cannot begin as expired"), transaction.atomic():
        hold.save()


def test_a_message_id_exists_once(house: House) -> None:
    first = email_queue(to="a@example.com", subject="Oi", body="Oi", user_id=None, key="e")
    with pytest.raises(IntegrityError, match="message_id"), transaction.atomic():
        OutboundEmail.objects.create(
            to="b@example.com",
            subject="Oi",
            body="Oi",
            message_id=first.message_id,
            next_attempt_at=first.next_attempt_at,
        )

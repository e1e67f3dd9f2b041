"""Buying and giving back: each once, at the right price, for the right fan."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from boxoffice.common import clock
from boxoffice.ticketing.exceptions import (
    AlreadyRefunded,
    HoldExpired,
    HoldNotActive,
    HoldNotFound,
    KeyReused,
    OrderNotFound,
    PaymentDeclined,
    SalesClosed,
)
from boxoffice.ticketing.models import (
    Event,
    Hold,
    Order,
    Payment,
    Price,
    Refund,
    SeatClaim,
)
from boxoffice.ticketing.services.holds import hold_create
from boxoffice.ticketing.services.orders import order_place, order_refund
from boxoffice.ticketing.services.payments import Charge, DemoProvider
from tests.ticketing.factory import House


class Recorder(DemoProvider):
    """Remembers what it was asked to move."""

    moved: list[tuple[str, str, int]] = []

    def charge(self, *, reference: str, amount_minor: int, description: str) -> Charge:
        self.moved.append(("charge", reference, amount_minor))
        return super().charge(
            reference=reference, amount_minor=amount_minor, description=description
        )

    def refund(self, *, reference: str, provider_id: str, amount_minor: int) -> None:
        self.moved.append(("refund", reference, amount_minor))


class Decliner(DemoProvider):
    """Says no."""

    def charge(self, *, reference: str, amount_minor: int, description: str) -> Charge:
        raise PaymentDeclined("The card was declined.")


@pytest.fixture(autouse=True)
def recorder(settings: Any) -> list[tuple[str, str, int]]:
    """Every movement of money in the test."""
    settings.PAYMENT_PROVIDER = f"{__name__}.Recorder"
    Recorder.moved.clear()
    return Recorder.moved


@pytest.fixture
def hold(house: House) -> Hold:
    """Ana's hold of a dear and a cheap seat."""
    return hold_create(
        event_id=house.event.pk, seat_ids=house.ids("P-A1", "B-A1"), user_id=house.ana.pk
    )


def buy(house: House, hold: Hold, key: str = "k") -> Order:
    return order_place(hold_id=hold.pk, user_id=house.ana.pk, payment_key=key)


def refund(house: House, order: Order, key: str = "r") -> Refund:
    return order_refund(
        order_id=order.pk, user_id=house.ana.pk, reason="não posso ir", refund_key=key
    )


def test_an_order_costs_what_the_hold_promised(
    house: House, hold: Hold, recorder: list[tuple[str, str, int]]
) -> None:
    Price.objects.filter(event=house.event).update(amount_minor=99_999)
    order = buy(house, hold)
    assert (order.status, order.total_minor) == ("paid", 33_050)
    assert recorder == [("charge", "k", 33_050)]
    hold.refresh_from_db()
    assert hold.status == "converted"
    assert SeatClaim.objects.filter(order=order, released_at__isnull=True).count() == 2
    payment = Payment.objects.get(order=order)
    assert (payment.amount_minor, payment.status) == (33_050, "captured")


def test_the_same_key_buys_once(
    house: House, hold: Hold, recorder: list[tuple[str, str, int]]
) -> None:
    assert buy(house, hold).pk == buy(house, hold).pk
    assert len(recorder) == Order.objects.count() == 1


def test_another_key_for_a_bought_hold_is_refused(house: House, hold: Hold) -> None:
    buy(house, hold)
    with pytest.raises(HoldNotActive):
        buy(house, hold, "another")


def test_a_key_pays_for_one_hold(house: House, hold: Hold) -> None:
    buy(house, hold)
    other = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-B1"), user_id=house.ana.pk)
    with pytest.raises(KeyReused):
        buy(house, other)


def test_a_declined_payment_changes_nothing(house: House, hold: Hold, settings: Any) -> None:
    settings.PAYMENT_PROVIDER = f"{__name__}.Decliner"
    with pytest.raises(PaymentDeclined):
        buy(house, hold)
    hold.refresh_from_db()
    assert hold.status == "active"
    assert Order.objects.count() == Payment.objects.count() == 0
    assert house.live() == 2


def test_an_overdue_hold_buys_nothing(
    house: House, hold: Hold, recorder: list[tuple[str, str, int]]
) -> None:
    Hold.objects.filter(pk=hold.pk).update(expires_at=clock.now())
    with pytest.raises(HoldExpired):
        buy(house, hold)
    assert recorder == []


def test_an_event_that_began_meanwhile_is_not_sold(house: House, hold: Hold) -> None:
    Event.objects.filter(pk=house.event.pk).update(starts_at=clock.now() - timedelta(minutes=1))
    with pytest.raises(SalesClosed):
        buy(house, hold)


def test_somebody_elses_hold_does_not_exist(house: House, hold: Hold) -> None:
    for hold_id, user_id in ((hold.pk, house.fabio.pk), (uuid4(), house.ana.pk)):
        with pytest.raises(HoldNotFound, match=r"^hold not found$"):
            order_place(hold_id=hold_id, user_id=user_id, payment_key="k")


def test_a_refund_gives_everything_back_and_frees_the_seats(
    house: House, hold: Hold, recorder: list[tuple[str, str, int]]
) -> None:
    order = buy(house, hold)
    given = refund(house, order)
    assert (given.status, given.amount_minor, given.reason) == ("refunded", 33_050, "não posso ir")
    order.refresh_from_db()
    assert order.status == "refunded"
    assert Payment.objects.get(order=order).status == "refunded"
    assert recorder[1:] == [("refund", "r", 33_050)]
    assert house.live() == 0
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1", "B-A1"), user_id=house.fabio.pk)


def test_an_order_is_refunded_once(
    house: House, hold: Hold, recorder: list[tuple[str, str, int]]
) -> None:
    order = buy(house, hold)
    first = refund(house, order)
    assert refund(house, order).pk == first.pk
    with pytest.raises(AlreadyRefunded):
        refund(house, order, "another")
    assert [move for move in recorder if move[0] == "refund"] == [("refund", "r", 33_050)]


def test_a_refund_key_serves_one_order(house: House, hold: Hold) -> None:
    refund(house, buy(house, hold))
    second = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-B1"), user_id=house.ana.pk)
    with pytest.raises(KeyReused):
        refund(house, buy(house, second, "k2"))


def test_somebody_elses_order_does_not_exist_but_the_house_may_refund_it(
    house: House, hold: Hold
) -> None:
    order = buy(house, hold)
    for order_id, user_id in ((order.pk, house.fabio.pk), (uuid4(), house.ana.pk)):
        with pytest.raises(OrderNotFound, match=r"^order not found$"):
            order_refund(order_id=order_id, user_id=user_id, reason="x", refund_key="r")
    given = order_refund(order_id=order.pk, user_id=None, reason="cancelado", refund_key="house")
    assert given.status == "refunded"

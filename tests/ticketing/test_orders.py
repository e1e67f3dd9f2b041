"""Buying and giving back: each once, at the right price, for the right fan."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import IntegrityError, transaction

from boxoffice.common import clock
from boxoffice.ticketing.exceptions import (
    AlreadyRefunded,
    HoldExpired,
    HoldNotActive,
    HoldNotFound,
    KeyReused,
    OrderNotFound,
    PaymentSettled,
    RefundUnderWay,
    SalesClosed,
    SeatsTaken,
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
from boxoffice.ticketing.selectors.sales import order_of
from boxoffice.ticketing.selectors.seats import event_seat_map
from boxoffice.ticketing.services.holds import hold_create, hold_extend, hold_release, holds_expire
from boxoffice.ticketing.services.orders import (
    order_begin,
    order_cancel,
    order_pay,
    refund_begin,
    refund_complete,
    refund_fail,
)
from tests.ticketing.buying import order_place, order_refund
from tests.ticketing.factory import House


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


def test_an_order_costs_what_the_hold_promised(house: House, hold: Hold) -> None:
    Price.objects.filter(event=house.event).update(amount_minor=99_999)
    order = buy(house, hold)
    assert (order.status, order.total_minor) == ("paid", 33_050)
    hold.refresh_from_db()
    assert hold.status == "converted"
    assert SeatClaim.objects.filter(order=order, released_at__isnull=True).count() == 2
    payment = Payment.objects.get(order=order)
    assert (payment.amount_minor, payment.status) == (33_050, "captured")


def test_the_same_key_buys_once(house: House, hold: Hold) -> None:
    assert buy(house, hold).pk == buy(house, hold).pk
    assert Payment.objects.count() == Order.objects.count() == 1


def test_another_key_for_a_bought_hold_is_refused(house: House, hold: Hold) -> None:
    buy(house, hold)
    with pytest.raises(HoldNotActive):
        buy(house, hold, "another")


def test_a_key_pays_for_one_hold(house: House, hold: Hold) -> None:
    buy(house, hold)
    other = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-B1"), user_id=house.ana.pk)
    with pytest.raises(KeyReused):
        buy(house, other)


def begin(house: House, hold: Hold, key: str = "k") -> Order:
    return order_begin(
        hold_id=hold.pk, user_id=house.ana.pk, payment_key=key, provider="acquirer.example"
    )


def statuses(order: Order) -> tuple[str, str, str]:
    """Of the order, its payment and its hold."""
    order.refresh_from_db()
    payment = Payment.objects.get(order=order)
    return order.status, payment.status, Hold.objects.get(pk=order.hold_id).status


def shown(house: House) -> dict[str, int]:
    """How many seats the map shows in each state but free."""
    map_ = [seat.status for seat in event_seat_map(house.event)]
    return {status: map_.count(status) for status in set(map_) - {"free"}}


def test_seats_stay_held_while_they_are_being_paid(house: House, hold: Hold) -> None:
    order = begin(house, hold)
    assert statuses(order) == ("pending", "pending", "paying")
    Hold.objects.filter(pk=hold.pk).update(expires_at=clock.now() - timedelta(hours=1))
    assert holds_expire() == 0
    assert shown(house) == {"held": 2}
    with pytest.raises(SeatsTaken):
        hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.fabio.pk)
    for act in (
        lambda: hold_release(hold_id=hold.pk, user_id=house.ana.pk),
        lambda: hold_extend(hold_id=hold.pk, until=clock.now() + timedelta(hours=1)),
        lambda: begin(house, hold, "another"),
    ):
        with pytest.raises(HoldNotActive):
            act()
    assert begin(house, hold).pk == order.pk
    order_pay(payment_key="k", provider_id="mv_k")
    assert statuses(order) == ("paid", "captured", "converted")
    assert shown(house) == {"sold": 2}
    assert Payment.objects.get(order=order).provider_id == "mv_k"


def test_a_declined_payment_leaves_the_hold_as_it_was(house: House, hold: Hold) -> None:
    order = begin(house, hold)
    for _ in range(2):
        order_cancel(payment_key="k")
        assert statuses(order) == ("cancelled", "failed", "active")
    assert house.live() == 2
    assert shown(house) == {"held": 2}
    assert buy(house, hold, "second try").status == "paid"
    assert order_of(order_id=order.pk, user_id=house.ana.pk).status == "cancelled"


def test_a_payment_that_comes_to_nothing_after_the_holds_time_frees_the_seats(
    house: House, hold: Hold
) -> None:
    order = begin(house, hold)
    Hold.objects.filter(pk=hold.pk).update(expires_at=clock.now() - timedelta(seconds=1))
    order_cancel(payment_key="k")
    assert statuses(order) == ("cancelled", "failed", "expired")
    assert house.live() == 0
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.fabio.pk)


def test_what_became_of_a_payment_is_written_down_once(house: House, hold: Hold) -> None:
    order = begin(house, hold)
    order_pay(payment_key="k", provider_id="1")
    assert order_pay(payment_key="k", provider_id="2").pk == order.pk
    with pytest.raises(PaymentSettled):
        order_cancel(payment_key="k")
    assert statuses(order) == ("paid", "captured", "converted")
    assert Payment.objects.get(order=order).provider_id == "1"
    other = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-B1"), user_id=house.ana.pk)
    begin(house, other, "off")
    order_cancel(payment_key="off")
    with pytest.raises(PaymentSettled):
        order_pay(payment_key="off", provider_id="3")


def test_the_database_lets_a_hold_have_one_order_that_is_not_off(house: House, hold: Hold) -> None:
    begin(house, hold)
    twin = Order(event=house.event, user=house.ana, hold=hold, total_minor=1, status="pending")
    with pytest.raises(IntegrityError, match="order_once_per_hold"), transaction.atomic():
        twin.save()


def test_an_overdue_hold_buys_nothing(house: House, hold: Hold) -> None:
    Hold.objects.filter(pk=hold.pk).update(expires_at=clock.now())
    with pytest.raises(HoldExpired):
        buy(house, hold)
    assert Order.objects.count() == Payment.objects.count() == 0


def test_an_event_that_began_meanwhile_is_not_sold(house: House, hold: Hold) -> None:
    Event.objects.filter(pk=house.event.pk).update(starts_at=clock.now() - timedelta(minutes=1))
    with pytest.raises(SalesClosed):
        buy(house, hold)


def test_somebody_elses_hold_does_not_exist(house: House, hold: Hold) -> None:
    for hold_id, user_id in ((hold.pk, house.fabio.pk), (uuid4(), house.ana.pk)):
        with pytest.raises(HoldNotFound, match=r"^hold not found$"):
            order_place(hold_id=hold_id, user_id=user_id, payment_key="k")


def test_a_refund_gives_everything_back_and_frees_the_seats(house: House, hold: Hold) -> None:
    order = buy(house, hold)
    given = refund(house, order)
    assert (given.status, given.amount_minor, given.reason) == ("refunded", 33_050, "não posso ir")
    order.refresh_from_db()
    assert order.status == "refunded"
    assert Payment.objects.get(order=order).status == "refunded"
    assert house.live() == 0
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1", "B-A1"), user_id=house.fabio.pk)


def test_a_refund_on_its_way_keeps_the_seats_and_a_second_one_out(house: House, hold: Hold) -> None:
    order = buy(house, hold)
    asked: dict[str, Any] = {"order_id": order.pk, "user_id": house.ana.pk, "reason": "chuva"}
    pending = refund_begin(**asked, refund_key="r")
    assert refund_begin(**asked, refund_key="r").pk == pending.pk
    with pytest.raises(RefundUnderWay):
        refund_begin(**asked, refund_key="another")
    assert shown(house) == {"sold": 2}
    for _ in range(2):
        assert refund_fail(refund_key="r").status == "failed"
    with pytest.raises(PaymentSettled):
        refund_complete(refund_key="r")
    assert statuses(order) == ("paid", "captured", "converted")
    refund_begin(**asked, refund_key="second try")
    assert refund_complete(refund_key="second try").status == "refunded"
    with pytest.raises(PaymentSettled):
        refund_fail(refund_key="second try")
    with pytest.raises(AlreadyRefunded):
        refund_begin(**asked, refund_key="third")
    rows = order_of(order_id=order.pk, user_id=house.ana.pk).refunds
    assert [row.status for row in rows] == ["failed", "refunded"]
    assert house.live() == 0


def test_an_order_that_was_not_paid_is_not_refunded(house: House, hold: Hold) -> None:
    order = begin(house, hold)
    for _ in range(2):
        with pytest.raises(OrderNotFound):
            refund(house, order)
        order_cancel(payment_key="k")


def test_an_order_is_refunded_once(house: House, hold: Hold) -> None:
    order = buy(house, hold)
    first = refund(house, order)
    assert refund(house, order).pk == first.pk
    with pytest.raises(AlreadyRefunded):
        refund(house, order, "another")
    assert [row.reference for row in Refund.objects.all()] == ["r"]


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

"""A hold after it was made: released, extended, expired."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from boxoffice.common import clock
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing import tasks
from boxoffice.ticketing.exceptions import HoldExpired, HoldNotActive, HoldNotFound
from boxoffice.ticketing.models import Hold
from boxoffice.ticketing.services.holds import (
    hold_create,
    hold_extend,
    hold_release,
    holds_expire,
)
from tests.ticketing.buying import order_place
from tests.ticketing.factory import House, make_house


@pytest.fixture
def hold(house: House) -> Hold:
    """Ana's hold of two seats."""
    return hold_create(
        event_id=house.event.pk, seat_ids=house.ids("P-A1", "P-A2"), user_id=house.ana.pk
    )


def overdue(hold: Hold) -> None:
    Hold.objects.filter(pk=hold.pk).update(expires_at=clock.now() - timedelta(seconds=1))


def test_release_frees_the_seats_and_may_be_repeated(house: House, hold: Hold) -> None:
    for _ in range(2):
        assert hold_release(hold_id=hold.pk, user_id=house.ana.pk).status == "released"
    assert house.live() == 0
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1", "P-A2"), user_id=house.fabio.pk)


def test_releasing_an_old_hold_does_not_touch_the_next_owner(house: House, hold: Hold) -> None:
    hold_release(hold_id=hold.pk, user_id=house.ana.pk)
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.fabio.pk)
    hold_release(hold_id=hold.pk, user_id=house.ana.pk)
    assert house.live() == 1


def test_an_expired_hold_is_returned_as_it_is(house: House, hold: Hold) -> None:
    overdue(hold)
    assert holds_expire() == 1
    assert hold_release(hold_id=hold.pk, user_id=house.ana.pk).status == "expired"


def test_what_was_bought_cannot_be_released(house: House, hold: Hold) -> None:
    order_place(hold_id=hold.pk, user_id=house.ana.pk, payment_key="k")
    with pytest.raises(HoldNotActive):
        hold_release(hold_id=hold.pk, user_id=house.ana.pk)
    assert house.live() == 2


def test_only_the_owner_in_the_tenant_may_release(other_house: House, house: House) -> None:
    with pytest.raises(HoldNotFound, match=r"^hold not found$"):
        hold_release(hold_id=uuid4(), user_id=house.ana.pk)
    mine = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk)
    with pytest.raises(HoldNotFound, match=r"^hold not found$"):
        hold_release(hold_id=mine.pk, user_id=house.fabio.pk)
    assert house.live() == 1


def test_another_tenants_hold_does_not_exist(db: None) -> None:
    arena, teatro = make_house("arena"), make_house("teatro")
    with tenant_scope(teatro.tenant.pk):
        theirs = hold_create(
            event_id=teatro.event.pk, seat_ids=teatro.ids("P-A1"), user_id=teatro.ana.pk
        )
    with tenant_scope(arena.tenant.pk):
        with pytest.raises(HoldNotFound):
            hold_release(hold_id=theirs.pk, user_id=teatro.ana.pk)
        with pytest.raises(HoldNotFound):
            hold_extend(hold_id=theirs.pk, until=clock.now())
        with pytest.raises(HoldNotFound):
            order_place(hold_id=theirs.pk, user_id=teatro.ana.pk, payment_key="k")


def test_extend_never_shortens(house: House, hold: Hold) -> None:
    later = hold.expires_at + timedelta(hours=1)
    assert hold_extend(hold_id=hold.pk, until=later).expires_at == later
    assert hold_extend(hold_id=hold.pk, until=clock.now()).expires_at == later
    hold.refresh_from_db()
    assert hold.expires_at == later


def test_a_hold_that_is_over_is_not_extended(house: House, hold: Hold) -> None:
    overdue(hold)
    with pytest.raises(HoldExpired):
        hold_extend(hold_id=hold.pk, until=clock.now() + timedelta(hours=1))
    hold_release(hold_id=hold.pk, user_id=house.ana.pk)
    with pytest.raises(HoldNotActive):
        hold_extend(hold_id=hold.pk, until=clock.now() + timedelta(hours=1))


def test_the_sweep_ends_overdue_holds_only(house: House, hold: Hold) -> None:
    other = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-B1"), user_id=house.fabio.pk)
    assert holds_expire() == 0
    overdue(hold)
    assert holds_expire() == 1
    hold.refresh_from_db()
    other.refresh_from_db()
    assert (hold.status, other.status) == ("expired", "active")
    assert house.live() == 1


def test_the_task_sweeps_every_tenant(db: None) -> None:
    statuses: list[str] = []
    houses = [make_house("arena"), make_house("teatro")]
    ids: list[UUID] = []
    for house in houses:
        with tenant_scope(house.tenant.pk):
            made = hold_create(
                event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk
            )
            overdue(made)
            ids.append(made.pk)
    tasks.expire_holds()
    for house, hold_id in zip(houses, ids, strict=True):
        with tenant_scope(house.tenant.pk):
            statuses.append(Hold.objects.get(pk=hold_id).status)
            assert house.live() == 0
    assert statuses == ["expired", "expired"]

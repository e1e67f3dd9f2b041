"""Holding seats: all of them or none."""

from datetime import timedelta
from uuid import uuid4

import pytest
from django.conf import settings

from boxoffice.common import clock
from boxoffice.ticketing.exceptions import BadSeats, EventNotFound, SalesClosed, SeatsTaken
from boxoffice.ticketing.models import Event, Hold, Price, SeatClaim
from boxoffice.ticketing.services.holds import hold_create
from tests.ticketing.factory import House


def test_a_hold_keeps_its_seats_at_their_price_for_the_time_limit(house: House) -> None:
    before = clock.now()
    hold = hold_create(
        event_id=house.event.pk, seat_ids=house.ids("P-A1", "B-A2"), user_id=house.ana.pk
    )
    assert hold.status == "active"
    lasts = (hold.expires_at - before).total_seconds()
    assert settings.HOLD_SECONDS <= lasts < settings.HOLD_SECONDS + 60
    claims = SeatClaim.objects.filter(hold=hold)
    assert sorted(claim.price_minor for claim in claims) == [9_050, 24_000]
    assert all(claim.released_at is None for claim in claims)


def test_one_taken_seat_means_that_none_is_held(house: House) -> None:
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A2"), user_id=house.ana.pk)
    with pytest.raises(SeatsTaken) as caught:
        hold_create(
            event_id=house.event.pk,
            seat_ids=house.ids("P-A1", "P-A2", "P-A3"),
            user_id=house.fabio.pk,
        )
    assert caught.value.seats == ["Plateia, A2"]
    assert "search_seats" in caught.value.hint
    assert house.live() == 1
    assert Hold.objects.count() == 1


def test_a_fan_who_holds_the_seats_already_is_told_so(house: House) -> None:
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A2"), user_id=house.ana.pk)
    with pytest.raises(SeatsTaken) as caught:
        hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A2"), user_id=house.ana.pk)
    assert "has these seats already" in caught.value.hint


def test_seats_of_an_overdue_hold_are_free_without_any_sweep(house: House) -> None:
    late = clock.now() - timedelta(seconds=settings.HOLD_SECONDS + 1)
    old = hold_create(
        event_id=house.event.pk,
        seat_ids=house.ids("P-A1", "P-A2"),
        user_id=house.ana.pk,
        now=late,
    )
    new = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A2"), user_id=house.fabio.pk)
    old.refresh_from_db()
    assert old.status == "expired"
    assert new.status == "active"
    live = SeatClaim.objects.filter(released_at__isnull=True)
    assert [claim.hold_id for claim in live] == [new.pk]


def test_a_failed_hold_names_only_seats_that_are_really_taken(house: House) -> None:
    late = clock.now() - timedelta(seconds=settings.HOLD_SECONDS + 1)
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk, now=late)
    hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A2"), user_id=house.ana.pk)
    with pytest.raises(SeatsTaken) as caught:
        hold_create(
            event_id=house.event.pk, seat_ids=house.ids("P-A1", "P-A2"), user_id=house.fabio.pk
        )
    assert caught.value.seats == ["Plateia, A2"]


@pytest.mark.parametrize("count", [0, 7, 40])
def test_the_number_of_seats_is_bounded_and_the_bound_is_named(house: House, count: int) -> None:
    ids = [seat.pk for seat in house.seats.values()][:count]
    with pytest.raises(BadSeats, match=f"1 to 6 seats, not {count}"):
        hold_create(event_id=house.event.pk, seat_ids=ids, user_id=house.ana.pk)


def test_the_same_seat_twice_is_refused(house: House) -> None:
    with pytest.raises(BadSeats, match="each seat once"):
        hold_create(
            event_id=house.event.pk, seat_ids=house.ids("P-A1", "P-A1"), user_id=house.ana.pk
        )


def test_a_seat_without_a_price_is_not_on_sale(house: House) -> None:
    Price.objects.filter(event=house.event, section__name="Balcão").delete()
    with pytest.raises(BadSeats, match="not on sale"):
        hold_create(event_id=house.event.pk, seat_ids=house.ids("B-A1"), user_id=house.ana.pk)


def test_an_unknown_seat_is_named(house: House) -> None:
    stranger = uuid4()
    with pytest.raises(BadSeats, match=str(stranger)):
        hold_create(
            event_id=house.event.pk,
            seat_ids=[*house.ids("P-A1"), stranger],
            user_id=house.ana.pk,
        )
    assert house.live() == 0


def test_another_tenants_event_and_seats_do_not_exist(other_house: House, house: House) -> None:
    with pytest.raises(EventNotFound):
        hold_create(event_id=other_house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk)
    with pytest.raises(BadSeats):
        hold_create(event_id=house.event.pk, seat_ids=other_house.ids("P-A1"), user_id=house.ana.pk)


def test_an_event_that_has_begun_or_is_closed_sells_nothing(house: House) -> None:
    with pytest.raises(SalesClosed):
        hold_create(
            event_id=house.event.pk,
            seat_ids=house.ids("P-A1"),
            user_id=house.ana.pk,
            now=house.event.starts_at,
        )
    Event.objects.filter(pk=house.event.pk).update(sales_open=False)
    with pytest.raises(SalesClosed):
        hold_create(event_id=house.event.pk, seat_ids=house.ids("P-A1"), user_id=house.ana.pk)

"""Finding events and seats."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from boxoffice.common import clock
from boxoffice.common.exceptions import InvalidInput
from boxoffice.ticketing.exceptions import EventNotFound
from boxoffice.ticketing.models import Event, Hold, Seat, Section, Venue
from boxoffice.ticketing.selectors import seats
from boxoffice.ticketing.selectors.claims import FREE
from boxoffice.ticketing.selectors.events import event_get, events_search
from boxoffice.ticketing.selectors.seats import SeatRow, event_seat_map, seat_options
from boxoffice.ticketing.services.holds import hold_create
from tests.ticketing.buying import order_place
from tests.ticketing.factory import House, make_event


def titles(**asked: Any) -> list[str]:
    return [event.title for event in events_search(**asked)]


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("jazz", True),
        ("JAZZ noite", True),
        ("sao paulo", True),
        ("às nove", True),
        ("as nove", True),
        ("ingressos para show de jazz", True),
        ("show", True),
        ("jazz ópera", False),
        ("100%", False),
        ("_", False),
    ],
)
def test_every_telling_word_counts_accents_aside(house: House, query: str, fits: bool) -> None:
    assert titles(query=query) == (["Noite de Jazz"] if fits else [])


def test_days_are_the_tenants_days_with_both_ends(house: House) -> None:
    # 1 March 2031, 00:30 in São Paulo is 03:30 UTC; 23:30 is already the 2nd in UTC.
    make_event(house.venue, "Madrugada", datetime(2031, 3, 1, 3, 30, tzinfo=UTC))
    make_event(house.venue, "Noite", datetime(2031, 3, 2, 2, 30, tzinfo=UTC))
    day = date(2031, 3, 1)
    assert titles(date_from=day, date_to=day) == ["Madrugada", "Noite"]
    assert titles(date_from=day + timedelta(days=1)) == []
    assert titles(date_to=day - timedelta(days=1)) == ["Noite de Jazz"]


@pytest.mark.parametrize(
    "asked",
    [
        {"date_from": date.min},
        {"date_to": date.max},
        {"date_from": date(2030, 1, 2), "date_to": date(2030, 1, 1)},
    ],
)
def test_impossible_days_are_refused(house: House, asked: dict[str, date]) -> None:
    with pytest.raises(InvalidInput, match="date_"):
        events_search(**asked)  # type: ignore[arg-type]


def test_past_and_closed_events_are_not_offered(house: House) -> None:
    make_event(house.venue, "Ontem", clock.now() - timedelta(days=1))
    make_event(house.venue, "Fechado", clock.now() + timedelta(days=1), sales_open=False)
    assert titles() == ["Noite de Jazz"]


def test_the_price_limit_is_in_centavos_and_included(house: House) -> None:
    assert titles(max_price_minor=9_050) == ["Noite de Jazz"]
    assert titles(max_price_minor=9_049) == []


def test_another_tenants_events_do_not_exist(other_house: House, house: House) -> None:
    assert [event.pk for event in events_search()] == [house.event.pk]
    with pytest.raises(EventNotFound):
        event_get(other_house.event.pk)


def test_free_seats_count_what_is_really_free(house: House) -> None:
    held = hold_create(
        event_id=house.event.pk, seat_ids=house.ids("P-A1", "P-A2"), user_id=house.ana.pk
    )
    bought = hold_create(event_id=house.event.pk, seat_ids=house.ids("P-B1"), user_id=house.ana.pk)
    order_place(hold_id=bought.pk, user_id=house.ana.pk, payment_key="k")
    Hold.objects.filter(pk=bought.pk).update(expires_at=clock.now())
    assert event_get(house.event.pk).seats_free == 45  # type: ignore[attr-defined]
    Hold.objects.filter(pk=held.pk).update(expires_at=clock.now())
    assert event_get(house.event.pk).seats_free == 47  # type: ignore[attr-defined]
    statuses = {seat.id: seat.status for seat in event_seat_map(house.event)}
    assert statuses[house.seats["P-A1"].pk] == "free"
    assert statuses[house.seats["P-B1"].pk] == "sold"


def test_a_search_is_one_query_plus_the_time_zone(
    house: House, django_assert_num_queries: Any
) -> None:
    for day in range(1, 9):
        make_event(house.venue, f"Show {day}", clock.now() + timedelta(days=day))
    with django_assert_num_queries(1):
        assert len([(event.venue.name, event.price_from) for event in events_search()]) == 9
    with django_assert_num_queries(2):
        list(events_search(date_from=clock.now().date()))


def test_options_spread_over_rows_and_share_no_seat(house: House) -> None:
    options = seat_options(house.event, quantity=2)
    places = [(option.seats[0].section, option.seats[0].row) for option in options]
    assert places[:3] == [("Balcão", "A"), ("Balcão", "B"), ("Balcão", "C")]
    assert len(set(places)) == 5
    assert [option.total_minor for option in options] == [18_100] * 3 + [48_000] * 2


def test_the_price_limit_is_per_seat(house: House) -> None:
    options = seat_options(house.event, quantity=2, max_price_minor=9_050)
    assert {option.total_minor for option in options} == {18_100}
    assert seat_options(house.event, quantity=2, max_price_minor=9_049) == []


def _checkerboard(house: House) -> None:
    """Only every other seat of the house stays free."""
    names = [name for name, seat in house.seats.items() if seat.number % 2]
    for start in range(0, len(names), 6):
        hold_create(
            event_id=house.event.pk,
            seat_ids=house.ids(*names[start : start + 6]),
            user_id=house.fabio.pk,
        )


def test_without_neighbours_seats_apart_are_offered_only_when_wanted(house: House) -> None:
    _checkerboard(house)
    assert seat_options(house.event, quantity=2) == []
    apart = seat_options(house.event, quantity=2, adjacent=False)
    assert [(option.adjacent, option.total_minor) for option in apart] == [
        (False, 18_100),
        (False, 48_000),
    ]


def test_neighbours_come_before_seats_apart(house: House) -> None:
    small = Venue.objects.create(name="Porão", city="Rio")
    section = Section.objects.create(venue=small, name="Balcão")
    Seat.objects.bulk_create(
        Seat(tenant=house.tenant, section=section, row="A", number=n) for n in (1, 3, 4, 6)
    )
    event = make_event(small, "Pequeno", clock.now() + timedelta(days=1))
    options = seat_options(event, quantity=2, adjacent=False)
    assert [(option.adjacent, [seat.number for seat in option.seats]) for option in options] == [
        (True, [3, 4]),
        (False, [1, 6]),
    ]


def _seat(section: str, row: str, number: int, price: int) -> SeatRow:
    # Ids are random in life too; here they only have to differ.
    return SeatRow(
        id=seats.UUID(int=hash((section, row, number)) & (2**128 - 1)),
        section=section,
        row=row,
        number=number,
        price_minor=price,
        status=FREE,
        x=float(number),
        y=0.0,
    )


@given(
    st.sets(st.tuples(st.sampled_from("XY"), st.sampled_from("ABC"), st.integers(1, 12))),
    st.integers(1, 6),
    st.booleans(),
    st.integers(0, 300),
)
def test_options_are_always_honest(
    places: set[tuple[str, str, int]], quantity: int, adjacent: bool, limit: int
) -> None:
    price = {"X": 100, "Y": 250}
    free = [_seat(*place, price[place[0]]) for place in sorted(places)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seats, "event_seat_map", lambda event: free)
        options = seat_options(Event(), quantity=quantity, max_price_minor=limit, adjacent=adjacent)
    assert len(options) <= 5
    used = [seat.id for option in options if option.adjacent for seat in option.seats]
    assert len(used) == len(set(used))
    for option in options:
        assert len(option.seats) == quantity
        assert all(seat.price_minor <= limit for seat in option.seats)
        if option.adjacent:
            first = option.seats[0]
            wanted = [(first.section, first.row, first.number + i) for i in range(quantity)]
            assert [(s.section, s.row, s.number) for s in option.seats] == wanted
    together = [option.total_minor for option in options if option.adjacent]
    assert together == sorted(together)
    if adjacent:
        assert all(option.adjacent for option in options)
        cheap = {(s, r, n) for s, r, n in places if price[s] <= limit}
        runs = any(all((s, r, n + i) in cheap for i in range(quantity)) for s, r, n in cheap)
        assert bool(options) == runs

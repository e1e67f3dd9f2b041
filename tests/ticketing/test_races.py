"""Threads after the same seats, on the real database."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from random import Random
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection

from boxoffice.common import clock
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.exceptions import SeatsTaken
from boxoffice.ticketing.models import Hold, Order, Payment, Refund, SeatClaim
from boxoffice.ticketing.services.holds import hold_create, holds_expire
from tests.ticketing.buying import order_place, order_refund
from tests.ticketing.factory import ROWS, SEATS_PER_ROW, House, make_house, make_user

THREADS = 8


@pytest.fixture
def arena(transactional_db: None) -> Iterator[House]:
    """A house that other connections see."""
    made = make_house("arena")
    with tenant_scope(made.tenant.pk):
        yield made


def race(house: House, acts: list[Callable[[], Any]]) -> list[Any]:
    """Run all at once; an error of the product is an outcome like any other."""
    together = threading.Barrier(min(THREADS, len(acts)))

    def run(act: Callable[[], Any]) -> Any:
        try:
            with tenant_scope(house.tenant.pk):
                together.wait(timeout=30)
                return act()
        except BoxOfficeError as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, acts))


def test_every_pair_goes_to_exactly_one_and_nobody_gets_half(arena: House) -> None:
    pairs = [
        arena.ids(f"{section}-{row}{n}", f"{section}-{row}{n + 1}")
        for section in "PB"
        for row in ROWS
        for n in range(1, SEATS_PER_ROW, 2)
    ]
    fans = [make_user(arena.tenant, f"fan{i}").pk for i in range(THREADS)]

    def tries(fan: int) -> Callable[[], list[UUID]]:
        order = pairs.copy()
        Random(fan).shuffle(order)  # noqa: S311 - the same race each time

        def act() -> list[UUID]:
            won = []
            for pair in order:
                # Half of them name the seats the other way round: the lock order is ours.
                asked = pair if fan % 2 else pair[::-1]
                try:
                    won.append(hold_create(event_id=arena.event.pk, seat_ids=asked, user_id=fan).pk)
                except SeatsTaken:
                    continue
            return won

        return act

    won = race(arena, [tries(fan) for fan in fans])
    assert sum(len(holds) for holds in won) == len(pairs) == 24
    claims = list(SeatClaim.objects.values_list("hold_id", "seat_id"))
    assert Counter(seat for _, seat in claims) == Counter(seat for pair in pairs for seat in pair)
    held: dict[UUID, set[UUID]] = {}
    for hold_id, seat_id in claims:
        held.setdefault(hold_id, set()).add(seat_id)
    assert sorted(map(sorted, held.values())) == sorted(map(sorted, pairs))
    assert Hold.objects.count() == len(pairs)


def test_overlapping_wishes_never_deadlock_and_never_share(arena: House) -> None:
    windows = [arena.ids(*(f"P-A{n + i}" for i in range(3))) for n in range(1, 7)]
    acts = [
        lambda w=window, u=user: hold_create(  # type: ignore[misc]
            event_id=arena.event.pk, seat_ids=w, user_id=u
        )
        for window in windows * 4
        for user in (arena.ana.pk,)
    ]
    outcomes = race(arena, acts)
    holds = [one for one in outcomes if isinstance(one, Hold)]
    assert holds
    assert all(isinstance(one, Hold | SeatsTaken) for one in outcomes)
    live = list(SeatClaim.objects.values_list("seat_id", flat=True))
    assert len(live) == len(set(live)) == 3 * len(holds)


def test_one_heir_of_an_overdue_hold(arena: House) -> None:
    late = clock.now() - timedelta(seconds=settings.HOLD_SECONDS + 1)
    seats = arena.ids("P-A1", "P-A2")
    old = hold_create(event_id=arena.event.pk, seat_ids=seats, user_id=arena.ana.pk, now=late)
    acts: list[Callable[[], Any]] = [
        lambda: hold_create(event_id=arena.event.pk, seat_ids=seats, user_id=arena.fabio.pk)
    ] * 6
    outcomes = race(arena, [*acts, holds_expire, holds_expire])
    assert sum(isinstance(one, Hold) for one in outcomes) == 1
    old.refresh_from_db()
    assert old.status == "expired"
    assert arena.live() == 2


def test_one_order_and_one_refund_whoever_repeats(arena: House) -> None:
    hold = hold_create(event_id=arena.event.pk, seat_ids=arena.ids("P-A1"), user_id=arena.ana.pk)
    same: list[Callable[[], Any]] = [
        lambda: order_place(hold_id=hold.pk, user_id=arena.ana.pk, payment_key="one")
    ] * 4
    other: list[Callable[[], Any]] = [
        lambda: order_place(hold_id=hold.pk, user_id=arena.ana.pk, payment_key="two")
    ] * 4
    outcomes = race(arena, [*same, *other])
    bought = [one for one in outcomes if isinstance(one, Order)]
    assert len({order.pk for order in bought}) == Order.objects.count() == 1
    assert len(bought) == 4
    assert Payment.objects.count() == 1
    refunds: list[Callable[[], Any]] = [
        lambda key=str(i % 4): order_refund(  # type: ignore[misc]
            order_id=bought[0].pk, user_id=arena.ana.pk, reason="chuva", refund_key=key
        )
        for i in range(8)
    ]
    given = [one for one in race(arena, refunds) if isinstance(one, Refund)]
    assert len({refund.pk for refund in given}) == Refund.objects.count() == 1
    assert len(given) == 2
    assert arena.live() == 0

"""Any order of holding, buying, refunding and waiting leaves seats and money right."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from django.conf import settings
from django.db.models import Sum
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from boxoffice.common import clock
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.exceptions import (
    AlreadyRefunded,
    HoldExpired,
    HoldNotActive,
    SeatsTaken,
)
from boxoffice.ticketing.models import Hold, Order, Payment, Refund, SeatClaim
from boxoffice.ticketing.selectors.seats import event_seat_map
from boxoffice.ticketing.services.holds import hold_create, hold_extend, hold_release, holds_expire
from tests.ticketing.buying import order_place, order_refund
from tests.ticketing.factory import make_house

NAMES = [f"{section}-A{n}" for section in "PB" for n in range(1, 6)]
_numbers = count()


@dataclass
class Known:
    """What the model says of one hold."""

    hold_id: UUID
    user_id: int
    seats: frozenset[UUID]
    ends: datetime
    state: str = "active"
    order_id: UUID | None = None


class BoxOffice(RuleBasedStateMachine):
    """The services beside a model in a few dictionaries."""

    holds = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.house = make_house(f"house{next(_numbers)}")
        self.scope = tenant_scope(self.house.tenant.pk)
        self.scope.__enter__()
        self.moment = clock.now()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(clock, "now", lambda: self.moment)
        self.known: list[Known] = []
        self.keys = count()

    def teardown(self) -> None:
        self.patch.undo()
        self.scope.__exit__(None, None, None)

    def taken(self) -> dict[UUID, str]:
        """What the model holds for not free."""
        return {
            seat: "sold" if one.state == "bought" else "held"
            for one in self.known
            if one.state == "bought" or (one.state == "active" and one.ends > self.moment)
            for seat in one.seats
        }

    @rule(
        target=holds,
        names=st.sets(st.sampled_from(NAMES), min_size=1, max_size=4),
        is_ana=st.booleans(),
    )
    def hold(self, names: set[str], is_ana: bool) -> Any:
        seats = frozenset(self.house.ids(*names))
        user = self.house.ana if is_ana else self.house.fabio
        wanted = {"event_id": self.house.event.pk, "seat_ids": list(seats), "user_id": user.pk}
        if seats & set(self.taken()):
            with pytest.raises(SeatsTaken):
                hold_create(**wanted)
            return None
        made = hold_create(**wanted)
        for one in self.known:
            if one.state == "active" and one.seats & seats:
                one.state = "expired"
        ends = self.moment + timedelta(seconds=settings.HOLD_SECONDS)
        known = Known(hold_id=made.pk, user_id=user.pk, seats=seats, ends=ends)
        self.known.append(known)
        return known

    @rule(one=holds)
    def release(self, one: Known | None) -> None:
        if one is None:
            return
        if one.state == "bought" or one.order_id is not None:
            with pytest.raises(HoldNotActive):
                hold_release(hold_id=one.hold_id, user_id=one.user_id)
            return
        hold_release(hold_id=one.hold_id, user_id=one.user_id)
        if one.state == "active":
            one.state = "released"

    @rule(one=holds, minutes=st.integers(1, 30))
    def extend(self, one: Known | None, minutes: int) -> None:
        if one is None:
            return
        until = self.moment + timedelta(minutes=minutes)
        if one.state == "active" and one.ends > self.moment:
            hold_extend(hold_id=one.hold_id, until=until)
            one.ends = max(one.ends, until)
        else:
            with pytest.raises((HoldExpired, HoldNotActive)):
                hold_extend(hold_id=one.hold_id, until=until)

    @rule(one=holds)
    def buy(self, one: Known | None) -> None:
        if one is None:
            return
        asked = {"hold_id": one.hold_id, "user_id": one.user_id}
        key = f"pay{next(self.keys)}"
        if one.state == "active" and one.ends > self.moment:
            order = order_place(**asked, payment_key=key)
            assert order_place(**asked, payment_key=key).pk == order.pk
            one.state, one.order_id = "bought", order.pk
        else:
            with pytest.raises((HoldExpired, HoldNotActive)):
                order_place(**asked, payment_key=key)

    @rule(one=holds)
    def refund(self, one: Known | None) -> None:
        if one is None or one.order_id is None:
            return
        asked: dict[str, Any] = {
            "order_id": one.order_id,
            "user_id": one.user_id,
            "reason": "chuva",
            "refund_key": f"back{next(self.keys)}",
        }
        if one.state == "bought":
            refund = order_refund(**asked)
            assert order_refund(**asked).pk == refund.pk
            one.state = "refunded"
        else:
            with pytest.raises(AlreadyRefunded):
                order_refund(**asked)

    @rule(minutes=st.integers(1, 15))
    def wait(self, minutes: int) -> None:
        self.moment += timedelta(minutes=minutes)

    @rule()
    def sweep(self) -> None:
        overdue = [one for one in self.known if one.state == "active" and one.ends <= self.moment]
        assert holds_expire() == len(overdue)
        for one in overdue:
            one.state = "expired"

    @invariant()
    def the_map_is_the_models(self) -> None:
        shown = {s.id: s.status for s in event_seat_map(self.house.event) if s.status != "free"}
        assert shown == self.taken()

    @invariant()
    def no_seat_has_two_live_claims(self) -> None:
        live = list(
            SeatClaim.objects.filter(released_at__isnull=True).values_list("seat_id", flat=True)
        )
        assert len(live) == len(set(live))

    @invariant()
    def the_money_adds_up(self) -> None:
        def total(rows: Any, field: str) -> int:
            return rows.aggregate(n=Sum(field))["n"] or 0  # type: ignore[no-any-return]

        taken = total(Payment.objects, "amount_minor")
        given = total(Refund.objects.filter(status="refunded"), "amount_minor")
        sold = SeatClaim.objects.filter(order__isnull=False, released_at__isnull=True)
        assert taken - given == total(sold, "price_minor")
        assert taken == total(Order.objects, "total_minor")
        assert given == total(Order.objects.filter(status="refunded"), "total_minor")
        assert Hold.objects.filter(status="converted").count() == Order.objects.count()


def test_seats_and_money_stay_right_in_any_order(db: None) -> None:
    run_state_machine_as_test(
        BoxOffice,
        settings=hypothesis_settings(
            max_examples=12,
            stateful_step_count=20,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )

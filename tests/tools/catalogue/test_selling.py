"""From looking for events to the refund, tool by tool, as one fan's chat goes."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings

from boxoffice.common import clock
from boxoffice.ticketing.exceptions import (
    AlreadyRefunded,
    HoldExpired,
    HoldNotFound,
    OrderNotFound,
    SalesClosed,
    SeatsTaken,
)
from boxoffice.ticketing.models import Event, Hold, Order, Payment, Price
from tests.ticketing.factory import House, make_event
from tests.tools.catalogue.conftest import Call, context_of, the_tool
from tools import guard
from tools.catalogue.shapes import SignInRequired

SEAT_KEYS = {"id", "section", "row", "number", "price_brl"}


@pytest.fixture
def hold(call: Call, house: House) -> dict[str, Any]:
    """Two seats held by ana."""
    options = call("search_seats", event_id=str(house.event.pk), quantity=2)["options"]
    return call("hold_seats", event_id=str(house.event.pk), seat_ids=options[0]["seat_ids"])


@pytest.fixture
def order(call: Call, hold: dict[str, Any]) -> dict[str, Any]:
    """The same seats bought."""
    return call("place_order", hold_id=hold["hold_id"])


def test_search_events_gives_rows_in_the_tenants_time(call: Call, house: House) -> None:
    found = call("search_events", query="show de JAZZ", city="sao paulo", max_price_brl=90.5)
    assert set(found) == {"events", "total", "source", "as_of"}
    [row] = found["events"]
    assert row == {
        "id": str(house.event.pk),
        "title": "Noite de Jazz",
        "starts_at": row["starts_at"],
        "venue": "Casa",
        "city": "São Paulo",
        "category": "show",
        "price_from_brl": 90.5,
        "price_to_brl": 240.0,
        "seats_free": 48,
    }
    assert row["starts_at"].endswith("-03:00")
    starts_at = datetime.fromisoformat(row["starts_at"])
    assert starts_at == house.event.starts_at.replace(microsecond=0)


def test_search_events_gives_ten_and_says_how_many_there_are(call: Call, house: House) -> None:
    for day in range(6, 18):
        make_event(house.venue, f"Show {day}", clock.now() + timedelta(days=day))
    found = call("search_events")
    assert len(found["events"]) == 10
    assert found["total"] == 13
    starts = [row["starts_at"] for row in found["events"]]
    assert starts == sorted(starts)


def test_search_seats_offers_neighbours_cheapest_first(call: Call, house: House) -> None:
    found = call("search_seats", event_id=str(house.event.pk), quantity=2)
    assert found["event"] == "Noite de Jazz"
    assert len(found["options"]) == 5
    totals = [option["total_brl"] for option in found["options"]]
    assert totals == sorted(totals)
    assert totals[0] == 181.0
    for option in found["options"]:
        assert option["adjacent"] is True
        assert option["seat_ids"] == [seat["id"] for seat in option["seats"]]
        assert all(set(seat) == SEAT_KEYS for seat in option["seats"])


def test_search_seats_of_an_event_that_is_over_says_so(call: Call, house: House) -> None:
    Event.objects.filter(pk=house.event.pk).update(starts_at=clock.now())
    with pytest.raises(SalesClosed):
        call("search_seats", event_id=str(house.event.pk), quantity=2)


def test_hold_seats_answers_with_what_is_held(house: House, hold: dict[str, Any]) -> None:
    assert hold["status"] == "active"
    assert hold["event_id"] == str(house.event.pk)
    assert hold["total_brl"] == sum(seat["price_brl"] for seat in hold["seats"]) == 181.0
    left = datetime.fromisoformat(hold["expires_at"]) - clock.now()
    assert timedelta(0) < left <= timedelta(seconds=settings.HOLD_SECONDS)


def test_another_fan_cannot_hold_the_same_seats(
    call: Call, house: House, hold: dict[str, Any]
) -> None:
    with pytest.raises(SeatsTaken):
        call(
            "hold_seats",
            house.fabio,
            event_id=str(house.event.pk),
            seat_ids=[hold["seats"][0]["id"]],
        )


def test_the_inverse_of_hold_seats_is_release_hold(
    call: Call, house: House, hold: dict[str, Any]
) -> None:
    inverse = the_tool("hold_seats").inverse
    assert inverse is not None
    name, arguments = inverse(hold)
    assert call(name, **arguments) == {"hold_id": hold["hold_id"], "status": "released"}
    assert call(name, **arguments)["status"] == "released"
    assert house.live() == 0


def test_place_order_shows_before_and_after_and_binds_to_the_price_list(
    preview: Call, house: House, hold: dict[str, Any]
) -> None:
    shown = preview("place_order", hold_id=hold["hold_id"])
    assert set(shown) == {"summary", "before", "after", "warnings", "undo"}
    assert (shown["before"]["status"], shown["after"]["status"]) == ("active", "paid")
    assert (shown["before"]["paid_brl"], shown["after"]["paid_brl"]) == (0.0, 181.0)
    assert {seat["status"] for seat in shown["after"]["seats"]} == {"sold"}
    assert "R$ 181,00" in shown["summary"]
    assert shown["warnings"] == []
    assert preview("place_order", hold_id=hold["hold_id"]) == shown
    Price.objects.filter(event=house.event).update(amount_minor=10_000)
    [warning] = preview("place_order", hold_id=hold["hold_id"])["warnings"]
    assert "R$ 200,00" in warning


def test_waiting_for_the_fan_keeps_the_hold_and_a_no_gives_it_back(
    preview: Call, house: House, hold: dict[str, Any]
) -> None:
    spec, context = the_tool("place_order"), context_of(house, house.ana)
    arguments = guard.parse(spec, {"hold_id": hold["hold_id"]})
    assert spec.on_gated is not None
    assert spec.on_refused is not None
    before = preview("place_order", hold_id=hold["hold_id"])
    until = clock.now() + timedelta(hours=24)
    spec.on_gated(context, arguments, until)
    assert Hold.objects.get(pk=hold["hold_id"]).expires_at == until
    assert preview("place_order", hold_id=hold["hold_id"]) == before
    for _ in range(2):
        spec.on_refused(context, arguments)
    assert Hold.objects.get(pk=hold["hold_id"]).status == "released"
    assert house.live() == 0


def test_place_order_pays_once_for_one_key(call: Call, hold: dict[str, Any]) -> None:
    first = call("place_order", key="k", hold_id=hold["hold_id"])
    again = call("place_order", key="k", hold_id=hold["hold_id"])
    assert first == again
    assert first["status"] == "paid"
    assert first["total_brl"] == hold["total_brl"]
    assert Order.objects.count() == Payment.objects.count() == 1


def test_an_expired_hold_is_neither_shown_nor_bought(
    call: Call, preview: Call, hold: dict[str, Any]
) -> None:
    Hold.objects.filter(pk=hold["hold_id"]).update(expires_at=clock.now())
    with pytest.raises(HoldExpired):
        preview("place_order", hold_id=hold["hold_id"])
    with pytest.raises(HoldExpired):
        call("place_order", hold_id=hold["hold_id"])


def test_refund_goes_from_preview_to_status(
    call: Call, preview: Call, house: House, order: dict[str, Any]
) -> None:
    wanted = {"order_id": order["order_id"], "reason": "Não posso ir"}
    shown = preview("refund_order", **wanted)
    assert (shown["before"]["status"], shown["after"]["status"]) == ("paid", "refunded")
    assert (shown["before"]["refunded_brl"], shown["after"]["refunded_brl"]) == (0.0, 181.0)
    refund = call("refund_order", **wanted)
    assert refund == {
        "refund_id": refund["refund_id"],
        "order_id": order["order_id"],
        "amount_brl": 181.0,
        "status": "refunded",
    }
    status = call("get_order_status", order_id=order["order_id"])
    assert status["status"] == "refunded"
    assert status["seats"] == order["seats"]
    assert status["refunds"] == [
        {
            "id": refund["refund_id"],
            "amount_brl": 181.0,
            "status": "refunded",
            "reason": "Não posso ir",
        }
    ]
    assert house.live() == 0
    with pytest.raises(AlreadyRefunded):
        preview("refund_order", **wanted)
    with pytest.raises(AlreadyRefunded):
        call("refund_order", **wanted)


def test_a_refund_after_the_beginning_carries_a_warning(
    preview: Call, house: House, order: dict[str, Any]
) -> None:
    Event.objects.filter(pk=house.event.pk).update(starts_at=clock.now() - timedelta(days=1))
    assert preview("refund_order", order_id=order["order_id"], reason="chuva")["warnings"]


def test_what_is_somebody_elses_does_not_exist(
    call: Call, preview: Call, house: House, hold: dict[str, Any]
) -> None:
    strangers = [{"hold_id": hold["hold_id"]}, {"hold_id": str(uuid4())}]
    for arguments in strangers:
        for name in ("place_order", "release_hold"):
            with pytest.raises(HoldNotFound, match=r"^hold not found$"):
                call(name, house.fabio, **arguments)
        with pytest.raises(HoldNotFound, match=r"^hold not found$"):
            preview("place_order", house.fabio, **arguments)
    mine = call("place_order", hold_id=hold["hold_id"])
    for order_id in (mine["order_id"], str(uuid4())):
        wanted = {"order_id": order_id, "reason": "quero"}
        for act, name in ((call, "refund_order"), (preview, "refund_order")):
            with pytest.raises(OrderNotFound, match=r"^order not found$"):
                act(name, house.fabio, **wanted)
        with pytest.raises(OrderNotFound, match=r"^order not found$"):
            call("get_order_status", house.fabio, order_id=order_id)


@pytest.mark.parametrize(
    "name",
    ["hold_seats", "release_hold", "place_order", "get_order_status", "refund_order", "send_email"],
)
def test_a_visitor_is_asked_to_sign_in(house: House, name: str) -> None:
    spec = the_tool(name)
    first = spec.remote.begin if spec.remote is not None else spec.run
    with pytest.raises(SignInRequired):
        first(context_of(house, None), guard.parse(spec, spec.examples[0]))


def test_ids_in_results_are_ids(hold: dict[str, Any], order: dict[str, Any]) -> None:
    assert UUID(hold["hold_id"]) != UUID(order["order_id"])

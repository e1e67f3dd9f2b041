"""The REST doors: rows as promised, filters, pages, and whose they are."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from boxoffice.common import clock
from boxoffice.tenancy.principals import token_create
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.services.holds import hold_create
from tests.ticketing.buying import order_place, order_refund
from tests.ticketing.factory import House, make_event, make_house

SEAT_KEYS = {"id", "section", "row", "number", "price_brl", "status", "x", "y"}


@pytest.fixture
def arena(db: None) -> House:
    """A house whose scope is not open: requests open it themselves."""
    return make_house("arena")


def get(client: Client, house: House, path: str, user: Any = None, **query: Any) -> Any:
    """A GET in the tenant, with a token of ``user`` or as a visitor."""
    headers = {}
    if user is not None:
        headers["Authorization"] = f"Bearer {token_create(tenant=house.tenant, user=user)}"
    return client.get(f"/t/{house.tenant.slug}/api/v1/{path}", query, headers=headers)


def test_a_visitor_reads_events(client: Client, arena: House) -> None:
    response = get(client, arena, "events/")
    assert response.status_code == 200
    [row] = response.json()["results"]
    assert row["id"] == str(arena.event.pk)
    assert row["title"] == "Noite de Jazz"
    assert (row["venue"], row["city"]) == ("Casa", "São Paulo")
    assert (row["price_from_brl"], row["price_to_brl"]) == (90.5, 240.0)
    assert row["seats_free"] == 48


def test_events_come_in_cursor_pages_soonest_first(client: Client, arena: House) -> None:
    with tenant_scope(arena.tenant.pk):
        for day in (9, 2, 7):
            make_event(arena.venue, f"Dia {day}", clock.now() + timedelta(days=day))
    first = get(client, arena, "events/", page_size=2).json()
    second = client.get(first["next"]).json()
    titles = [row["title"] for row in first["results"] + second["results"]]
    assert titles == ["Dia 2", "Noite de Jazz", "Dia 7", "Dia 9"]
    assert second["next"] is None


def test_filters_narrow_the_list(client: Client, arena: House) -> None:
    def found(**query: Any) -> int:
        return len(get(client, arena, "events/", **query).json()["results"])

    assert found(query="jazz", city="sao paulo", max_price_brl="90.50") == 1
    assert found(query="ópera") == 0
    assert found(max_price_brl="90.49") == 0
    assert found(date_from="2199-01-01") == 0


@pytest.mark.parametrize(
    "query",
    [
        {"date_from": "amanhã"},
        {"date_to": "0001-01-01"},
        {"max_price_brl": "-1"},
        {"max_price_brl": "nan"},
        {"query": "x" * 201},
        {"query": "a\x00b"},
        {"date_from": "2030-02-02", "date_to": "2030-02-01"},
    ],
)
def test_a_bad_filter_is_a_problem_document(
    client: Client, arena: House, query: dict[str, str]
) -> None:
    response = get(client, arena, "events/", **query)
    assert response.status_code in {400, 422}
    assert response["Content-Type"] == "application/problem+json"
    name = next(iter(query))
    assert name in response.text or "date_to" in response.text


def test_the_seat_map_says_what_is_free_held_and_sold(client: Client, arena: House) -> None:
    with tenant_scope(arena.tenant.pk):
        hold_create(event_id=arena.event.pk, seat_ids=arena.ids("P-A1"), user_id=arena.ana.pk)
        bought = hold_create(
            event_id=arena.event.pk, seat_ids=arena.ids("B-C8"), user_id=arena.ana.pk
        )
        order_place(hold_id=bought.pk, user_id=arena.ana.pk, payment_key="k")
    rows = get(client, arena, f"events/{arena.event.pk}/seats/").json()["results"]
    assert len(rows) == 48
    assert all(set(row) == SEAT_KEYS for row in rows)
    by_id = {row["id"]: row for row in rows}
    assert by_id[str(arena.seats["P-A1"].pk)]["status"] == "held"
    assert by_id[str(arena.seats["B-C8"].pk)]["status"] == "sold"
    assert by_id[str(arena.seats["B-C8"].pk)]["price_brl"] == 90.5
    assert sum(row["status"] == "free" for row in rows) == 46


@pytest.mark.parametrize("path", ["events/{}/", "events/{}/seats/"])
@pytest.mark.parametrize("other", ["none", "unknown", "teatro"])
def test_an_event_that_is_not_here_is_not_found(
    client: Client, arena: House, path: str, other: str
) -> None:
    ids = {
        "none": "not-an-id",
        "unknown": "01890000-0000-7000-8000-000000000000",
        "teatro": str(make_house("teatro").event.pk),
    }
    response = get(client, arena, path.format(ids[other]))
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["code"] == "event_not_found"


@pytest.mark.parametrize("path", ["holds/", "orders/"])
def test_a_visitor_has_no_holds_and_no_orders(client: Client, arena: House, path: str) -> None:
    response = get(client, arena, path)
    assert response.status_code == 401
    assert response["Content-Type"] == "application/problem+json"


def test_a_fan_sees_their_own_holds_and_orders_only(client: Client, arena: House) -> None:
    with tenant_scope(arena.tenant.pk):
        hold = hold_create(
            event_id=arena.event.pk, seat_ids=arena.ids("P-A1", "P-A2"), user_id=arena.ana.pk
        )
    [row] = get(client, arena, "holds/", arena.ana).json()["results"]
    assert set(row) == {"id", "event", "seats", "expires_at", "status"}
    assert (row["id"], row["event"]) == (str(hold.pk), str(arena.event.pk))
    assert row["status"] == "active"
    assert [set(seat) for seat in row["seats"]] == [SEAT_KEYS] * 2
    assert [seat["status"] for seat in row["seats"]] == ["held"] * 2
    with tenant_scope(arena.tenant.pk):
        order = order_place(hold_id=hold.pk, user_id=arena.ana.pk, payment_key="k")
    [row] = get(client, arena, "orders/", arena.ana).json()["results"]
    assert set(row) == {"id", "event", "seats", "total_brl", "status"}
    assert (row["id"], row["total_brl"], row["status"]) == (str(order.pk), 480.0, "paid")
    assert get(client, arena, "holds/", arena.ana).json()["results"][0]["status"] == "converted"
    for path in ("holds/", "orders/"):
        assert get(client, arena, path, arena.fabio).json()["results"] == []


def test_a_refunded_order_still_says_which_seats_it_was(client: Client, arena: House) -> None:
    with tenant_scope(arena.tenant.pk):
        hold = hold_create(
            event_id=arena.event.pk, seat_ids=arena.ids("P-A1"), user_id=arena.ana.pk
        )
        order = order_place(hold_id=hold.pk, user_id=arena.ana.pk, payment_key="k")
        order_refund(order_id=order.pk, user_id=arena.ana.pk, reason="chuva", refund_key="r")
    [row] = get(client, arena, "orders/", arena.ana).json()["results"]
    assert row["status"] == "refunded"
    assert [(seat["number"], seat["status"]) for seat in row["seats"]] == [(1, "free")]


def test_lists_do_not_ask_once_per_row(
    client: Client, arena: House, django_assert_max_num_queries: Any
) -> None:
    with tenant_scope(arena.tenant.pk):
        for number in range(1, 9):
            hold_create(
                event_id=arena.event.pk,
                seat_ids=arena.ids(f"P-A{number}"),
                user_id=arena.ana.pk,
            )
            make_event(arena.venue, f"Show {number}", clock.now() + timedelta(days=number))
    headers = {"Authorization": f"Bearer {token_create(tenant=arena.tenant, user=arena.ana)}"}
    for path in ("holds/", "events/"):
        with django_assert_max_num_queries(12):
            client.get(f"/t/arena/api/v1/{path}", headers=headers)

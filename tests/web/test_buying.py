"""The main path, as people walk it: find, hold, buy, refund; two fans, a reviewer, a visitor."""

from collections.abc import Callable
from typing import Any

import pytest

from boxoffice.common.clock import now
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import Hold, Order, Refund, SeatClaim
from tests.support.stack import Stack
from tests.web.chat import Window, elsewhere

type Open = Callable[..., Window]

ASK = "encontre dois assentos abaixo de R$ 300 para sábado e reserve-os"


@pytest.fixture
def ana(window: Open, demo: Stack) -> Window:
    fan = window(demo)
    fan.sign_in("ana")
    return fan


def in_house[R](house: Tenant, work: Callable[[], R]) -> R:
    def scoped() -> R:
        with tenant_scope(house.pk):
            return work()

    return elsewhere(scoped)


def held_seats(name: str) -> list[tuple[Any, ...]]:
    """The live claims of the fan's newest hold: section, row, number, weekday, price."""
    hold = Hold.objects.filter(user__username=name).order_by("-id").first()
    assert hold is not None and hold.expires_at > now()
    claims = SeatClaim.objects.filter(hold=hold, released_at=None)
    rows = claims.select_related("seat__section", "event").order_by("seat__number")
    return [
        (claim.seat.section.name, claim.seat.row, claim.seat.number, claim.event_id)
        for claim in rows
    ]


def orders_of(name: str) -> int:
    return Order.objects.filter(user__username=name).count()


def newest_order(name: str) -> Order:
    order: Order = Order.objects.filter(user__username=name).order_by("-id")[0]
    return order


def test_finds_holds_and_buys_what_nobody_else_can_take(
    house: Tenant, demo: Stack, ana: Window, window: Open
) -> None:
    ana.start(ASK)
    card = ana.see(".hold-card[data-state=active]")
    assert "Reservado para você" in card
    assert ana.page.locator(".hold-card .clock").inner_text()[:2] in {"09", "10"}
    seats = in_house(house, lambda: held_seats("ana"))
    (section, row, first, event), (section2, row2, second, event2) = seats
    assert (section, row, first + 1, event) == (section2, row2, second, event2)
    assert "sáb" in card

    fabio = window(demo)
    fabio.sign_in("fabio")
    fabio.start(ASK)
    fabio.see(".hold-card[data-state=active]")
    assert not set(seats) & set(in_house(house, lambda: held_seats("fabio")))

    orders_before = in_house(house, lambda: orders_of("ana"))
    ana.say("pode comprar")
    gate = ana.see(".approval[data-gate=fan][data-state=pending]")
    assert "Confirmar e pagar" in gate
    assert in_house(house, lambda: orders_of("ana")) == orders_before
    ana.page.click(".approval .button >> nth=0")
    order_card = ana.see(".order-card")
    order = in_house(house, lambda: newest_order("ana"))
    assert order.status == "paid"
    assert str(order.pk) in order_card
    ana.page.locator(".run .bubble", has_text="Compra concluída").wait_for()
    assert ana.page.locator(".hold-card").get_attribute("data-state") == "bought"


def test_declined_purchase_buys_nothing(house: Tenant, ana: Window) -> None:
    before = in_house(house, Order.objects.count)
    ana.start(ASK)
    ana.see(".hold-card[data-state=active]")
    ana.page.wait_for_selector("#stop", state="hidden")
    ana.say("pode comprar")
    ana.see(".approval[data-state=pending]")
    ana.page.click(".approval .button.secondary")
    ana.page.wait_for_selector(".approval[data-state=denied]")
    ana.page.wait_for_selector("#stop", state="hidden")
    assert in_house(house, Order.objects.count) == before


def bought(ana: Window) -> None:
    ana.start(ASK)
    ana.see(".hold-card[data-state=active]")
    ana.page.wait_for_selector("#stop", state="hidden")
    ana.say("pode comprar")
    ana.see(".approval[data-state=pending]")
    ana.page.click(".approval .button >> nth=0")
    ana.see(".order-card")
    ana.page.wait_for_selector("#stop", state="hidden")


@pytest.fixture
def rita(window: Open, demo: Stack) -> Window:
    reviewer = window(demo)
    reviewer.sign_in("rita", to="/t/arena/approvals/")
    return reviewer


def test_refund_reaches_the_reviewer_without_a_reload_and_is_paid_once(
    house: Tenant, ana: Window, rita: Window
) -> None:
    bought(ana)
    ana.say("quero o reembolso porque não posso ir")
    gate = ana.see(".approval[data-gate=reviewer][data-state=pending]")
    assert "Aguardando a bilheteria" in gate
    rita.page.locator(".approvals-row").first.click()
    rita.page.click("form[hx-post*='/approve/'] button[type=submit]")
    ana.page.wait_for_selector(".approval[data-gate=reviewer][data-state=executed]")
    ana.page.wait_for_selector("#stop", state="hidden")
    order = in_house(house, lambda: newest_order("ana"))
    assert order.status == "refunded"
    assert in_house(house, lambda: Refund.objects.filter(order=order).count()) == 1
    assert "reembols" in ana.answer_texts()[-1].lower()


def test_reason_of_a_denied_refund_is_in_the_answer(
    house: Tenant, ana: Window, rita: Window
) -> None:
    bought(ana)
    ana.say("quero o reembolso porque não posso ir")
    ana.see(".approval[data-gate=reviewer][data-state=pending]")
    rita.page.locator(".approvals-row").first.click()
    rita.page.fill("#deny-reason", "fora do prazo de sete dias")
    rita.page.click("form:has(#deny-reason) button[type=submit]")
    ana.page.wait_for_selector(".approval[data-gate=reviewer][data-state=denied]")
    ana.page.locator(".run .bubble", has_text="fora do prazo de sete dias").wait_for()
    assert in_house(house, lambda: newest_order("ana")).status == "paid"


def test_fan_withdraws_a_request(house: Tenant, ana: Window) -> None:
    bought(ana)
    ana.say("quero o reembolso porque não posso ir")
    ana.see(".approval[data-gate=reviewer][data-state=pending]")
    ana.page.click(".approval[data-state=pending] .button")
    ana.page.wait_for_selector(".approval[data-state=withdrawn]")
    assert in_house(house, lambda: newest_order("ana")).status == "paid"


def test_event_and_option_are_chosen_with_a_tap(ana: Window) -> None:
    ana.page.locator(".event-card .button.secondary").first.click()
    ana.page.wait_for_url("**/c/**")
    ana.page.wait_for_selector(".option .button")
    ana.page.wait_for_selector("#stop", state="hidden")
    second = ana.page.locator(".option").nth(1)
    wanted = second.locator(".seats").inner_text()
    second.locator("button").click()
    assert wanted in ana.see(".hold-card[data-state=active]")


def test_visitor_is_told_to_sign_in_and_holds_nothing(
    house: Tenant, demo: Stack, window: Open
) -> None:
    before = in_house(house, Hold.objects.count)
    visitor = window(demo)
    visitor.go("/t/arena/")
    assert "Entre para reservar" in visitor.page.inner_text("main")
    visitor.start(ASK)
    visitor.page.wait_for_selector(".run .bubble")
    visitor.page.wait_for_selector("#stop", state="hidden")
    assert not visitor.page.locator(".hold-card").count()
    assert in_house(house, Hold.objects.count) == before

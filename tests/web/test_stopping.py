"""Stopping an answer, and giving back what it held."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import Event, Hold
from boxoffice.ticketing.selectors.seats import seat_options
from tests.support.scripted_model import Reply, ScriptedModel, last_tool_results, user_texts
from tests.support.stack import Stack
from tests.web.chat import Window, elsewhere

type Open = Callable[..., Window]

PHONE = {"viewport": {"width": 360, "height": 720}, "has_touch": True}
WORDS = {
    "pt-br": ("Devolver estes assentos", "O que esta resposta tinha reservado"),
    "en": ("Give these seats back", "What this answer had reserved"),
}


@pytest.fixture
def seats(house: Tenant) -> dict[str, Any]:
    """Two free seats side by side."""

    def find() -> dict[str, Any]:
        with tenant_scope(house.pk):
            for event in Event.objects.filter(sales_open=True).order_by("starts_at"):
                options = seat_options(event, quantity=2, max_price_minor=None, adjacent=True)
                if options:
                    ids = [str(seat.id) for seat in options[0].seats]
                    return {"event_id": str(event.pk), "seat_ids": ids}
        raise AssertionError("The demo house is sold out.")

    return elsewhere(find)


def holds_then_thinks(model: ScriptedModel, seats: dict[str, Any], rest: threading.Event) -> None:
    """Holds the seats, and then takes its time; later it says what it was told last."""

    def answer(body: dict[str, Any]) -> Reply:
        if "e agora" in user_texts(body)[-1]:
            return Reply.text("Continuamos.")
        if last_tool_results(body):
            return Reply.text("Os assentos são seus.").when(rest)
        return Reply.tools(("hold_seats", seats))

    model.reset()
    model.route(answer)


def statuses(house: Tenant) -> set[str]:
    def read() -> set[str]:
        with tenant_scope(house.pk):
            return {hold.status for hold in Hold.objects.order_by("-id")[:1]}

    return elsewhere(read)


@pytest.mark.parametrize("language", ["pt-br", "en"])
def test_a_stopped_answer_gives_its_seats_back_when_the_fan_says_so(
    window: Open,
    house: Tenant,
    scripted: Stack,
    model: ScriptedModel,
    seats: dict[str, Any],
    language: str,
) -> None:
    rest = threading.Event()
    holds_then_thinks(model, seats, rest)
    fan = window(scripted, **PHONE)
    fan.sign_in("ana")
    fan.read_in(language)
    fan.start("reserve")
    fan.see(".hold-card[data-state=active]")
    fan.page.click("#stop")
    offer, gone = WORDS[language]
    back = fan.page.get_by_role("button", name=offer)
    back.wait_for()
    assert not fan.is_too_wide()
    assert fan.violations() == []

    fan.page.reload()
    back.wait_for()
    back.click()
    fan.see(".hold-card[data-state=released]")
    fan.page.locator(".run .note", has_text=gone).wait_for()
    assert back.count() == 0
    assert statuses(house) == {"released"}
    assert not fan.is_too_wide()
    assert fan.violations() == []

    fan.page.reload()
    fan.page.locator(".run .note", has_text=gone).wait_for()
    rest.set()


def test_a_stop_that_is_under_way_is_seen_after_a_reload_too(
    window: Open, house: Tenant, scripted: Stack, model: ScriptedModel
) -> None:
    """The worker is away: the stop waits for the sweep, and the page says so."""
    rest = threading.Event()
    model.reset()
    model.route(lambda body: Reply.text("Oi.").when(rest))
    fan = window(scripted, **PHONE)
    fan.sign_in("ana")
    fan.start("conte")
    fan.page.wait_for_selector("#stop", state="visible")
    model.wait_for_requests(1)
    os.kill(scripted.pid("worker0"), signal.SIGSTOP)
    try:
        fan.page.click("#stop")
        fan.page.locator(".thinking", has_text="parando").wait_for()
        fan.page.wait_for_selector("#stop.stopping[aria-disabled=true]")
        assert fan.violations() == []

        fan.page.reload()
        fan.page.locator(".thinking", has_text="parando").wait_for()
        fan.page.wait_for_selector("#stop.stopping[aria-disabled=true]")
    finally:
        os.kill(scripted.pid("worker0"), signal.SIGCONT)
    fan.page.locator(".run .note", has_text="Você parou").wait_for()
    fan.page.wait_for_selector("#stop", state="hidden")
    rest.set()

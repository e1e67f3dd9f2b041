"""The page on a phone, in both languages and both colour schemes, for all people."""

from collections.abc import Callable

import pytest

from tests.support.stack import Stack
from tests.web.chat import Window

type Open = Callable[..., Window]

PHONE = {"viewport": {"width": 360, "height": 720}, "has_touch": True}
ASK = {
    "pt-br": "encontre dois assentos abaixo de R$ 300 para sábado e reserve-os",
    "en": "find two seats under R$ 300 for saturday and hold them",
}
BUY = {"pt-br": "pode comprar", "en": "go ahead and buy them"}
WORDS = {
    "pt-br": ("Reservado para você", "Confirmar e pagar"),
    "en": ("Held for you", "Confirm and"),
}


@pytest.mark.parametrize("language", ["pt-br", "en"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_chat_fits_a_phone_and_everybody(
    window: Open, demo: Stack, language: str, scheme: str
) -> None:
    fan = window(demo, color_scheme=scheme, **PHONE)
    fan.sign_in("ana")
    fan.read_in(language)
    fan.page.wait_for_selector(".event-card")
    assert not fan.is_too_wide()
    assert fan.violations() == []
    fan.start(ASK[language])
    assert WORDS[language][0] in fan.see(".hold-card[data-state=active]")
    fan.page.wait_for_selector("#stop", state="hidden")
    fan.say(BUY[language])
    assert WORDS[language][1] in fan.see(".approval[data-state=pending]")
    assert not fan.is_too_wide()
    assert fan.violations() == []
    fan.page.click(".chat-side-open")
    fan.page.wait_for_selector("#chat-side:popover-open")
    assert fan.violations() == []


@pytest.mark.parametrize("path", ["/", "/accounts/login/", "/t/arena/"])
def test_pages_outside_a_conversation_fit(window: Open, demo: Stack, path: str) -> None:
    visitor = window(demo, **PHONE)
    visitor.go(path)
    if path == "/t/arena/":
        visitor.page.wait_for_selector(".event-card")
    assert not visitor.is_too_wide()
    assert visitor.violations() == []


def test_keyboard_writes_sends_and_confirms(window: Open, demo: Stack) -> None:
    fan = window(demo)
    fan.sign_in("ana")
    fan.page.focus("#text")
    fan.page.keyboard.type("oi")
    fan.page.keyboard.press("Shift+Enter")
    fan.page.keyboard.type("tudo bem?")
    assert fan.page.input_value("#text") == "oi\ntudo bem?"
    fan.page.keyboard.press("Enter")
    fan.page.wait_for_url("**/c/**")
    fan.page.wait_for_selector(".run .bubble")
    fan.page.wait_for_selector("#stop", state="hidden")
    fan.say(ASK["pt-br"])
    fan.see(".hold-card[data-state=active]")
    fan.page.wait_for_selector("#stop", state="hidden")
    fan.say(BUY["pt-br"])
    fan.page.focus(".approval .button >> nth=0")
    fan.page.keyboard.press("Enter")
    fan.see(".order-card")


def test_too_long_message_is_counted_and_not_sent(window: Open, demo: Stack) -> None:
    fan = window(demo)
    fan.sign_in("ana")
    fan.page.fill("#text", "a" * 7_900)
    assert "100" in fan.see("#composer-count")
    fan.page.fill("#text", "a" * 8_050)
    assert "50" in fan.see("#composer-count")
    assert fan.page.is_disabled("#send")
    fan.page.press("#text", "Enter")
    assert fan.page.url.endswith("/new/")


def test_seat_map_shows_free_and_taken_seats(window: Open, demo: Stack) -> None:
    fan = window(demo, **PHONE)
    fan.sign_in("ana")
    fan.page.locator(".event-card .button.quiet").first.click()
    fan.page.wait_for_selector(".map-seat.free")
    assert fan.page.locator(".map-seat.sold").count() > 0
    assert not fan.is_too_wide()
    free = fan.page.locator(".map-seat.free")
    free.nth(0).click()
    free.nth(1).click()
    free.nth(1).click()
    assert fan.page.locator(".map-seat.picked").count() == 1
    assert fan.violations() == []
    wanted = fan.page.inner_text(".map-foot p").split(" · R$")[0]
    fan.page.click(".map-foot .button")
    fan.page.wait_for_url("**/c/**")
    assert wanted in fan.see(".hold-card[data-state=active]")
    assert "[" not in fan.see(".message.fan")

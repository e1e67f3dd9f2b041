"""The database goes while a fan is there: the page says so, keeps what is written, and goes on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

from agents.models import Message
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tests.support.scripted_model import Reply, ScriptedModel, user_texts
from tests.support.servers import servers
from tests.support.stack import Stack
from tests.web.chat import WAIT_MS, Window, elsewhere

type Open = Callable[..., Window]

AWAY = "A bilheteria está fora do ar"


@pytest.fixture
def ana(window: Open, scripted: Stack, model: ScriptedModel) -> Iterator[Window]:
    model.reset()
    model.route(lambda body: Reply.text(f"Resposta a: {user_texts(body)[-1]}"))
    fan = window(scripted)
    fan.sign_in("ana")
    yield fan
    fan.forget_lost_connection()


@pytest.fixture
def database() -> Iterator[Any]:
    """Takes the database away; it is back after the test, whatever happens."""
    is_away = False

    def turn(to: str) -> None:
        nonlocal is_away
        if to == "off" and not is_away:
            servers.postgres_stop()
            is_away = True
        elif to == "on" and is_away:
            servers.postgres_start()
            is_away = False

    yield turn
    turn("on")


def fan_messages(house: Tenant, text: str) -> int:
    def count() -> int:
        with tenant_scope(house.pk):
            return Message.objects.filter(speaker="fan", text=text).count()

    return elsewhere(count)


def answered(ana: Window, text: str) -> None:
    ana.page.locator("#log .run .bubble", has_text=f"Resposta a: {text}").wait_for()


def test_what_is_written_while_the_database_is_away_is_answered_once_it_is_back(
    ana: Window, house: Tenant, database: Any
) -> None:
    ana.start("primeira")
    answered(ana, "primeira")
    database("off")
    ana.say("segunda")
    expect(ana.page.locator("#connection")).to_contain_text(AWAY, timeout=WAIT_MS)
    assert "Traceback" not in ana.page.inner_text("body")
    database("on")
    answered(ana, "segunda")
    expect(ana.page.locator("#connection")).to_be_hidden(timeout=WAIT_MS)
    assert fan_messages(house, "segunda") == 1
    assert ana.shown().count("segunda") == 2  # the message, and its answer


def test_a_page_that_is_opened_meanwhile_comes_by_itself(ana: Window, database: Any) -> None:
    ana.start("terceira")
    answered(ana, "terceira")
    database("off")
    ana.page.reload()
    assert ana.page.inner_text("h1") == "Voltamos já"
    assert AWAY in ana.page.inner_text("main")
    database("on")
    answered(ana, "terceira")

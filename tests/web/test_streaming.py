"""An answer on its way into the page: reload, second tab, lost connection, stop, steering."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from agents.models import Message
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tests.support.scripted_model import (
    Reply,
    ScriptedModel,
    last_tool_results,
    user_texts,
)
from tests.support.stack import Stack
from tests.web.chat import Window, elsewhere

type Open = Callable[..., Window]

FIRST = " ".join(f"primeira{number}" for number in range(40)) + "."
SECOND = " ".join(f"segunda{number}" for number in range(40)) + "."


@pytest.fixture
def ana(window: Open, scripted: Stack, model: ScriptedModel) -> Window:
    model.reset()
    fan = window(scripted)
    fan.sign_in("ana")
    return fan


def in_two_parts(model: ScriptedModel, rest: threading.Event) -> None:
    """Says the first part, looks something up, and says the second part when it may."""

    def answer(body: dict[str, Any]) -> Reply:
        if last_tool_results(body):
            return Reply.text(SECOND, token_delay=0.005).when(rest)
        return Reply.tools(("search_events", {}), text=FIRST, token_delay=0.005)

    model.route(answer)


def wait_for_text(page: Page, text: str) -> None:
    page.locator("#log .run .bubble", has_text=text).first.wait_for()


def texts(page: Page) -> list[str]:
    return page.locator("#log .run .bubble").all_inner_texts()


def test_reload_and_second_tab_in_mid_answer_show_every_word_once(
    ana: Window, model: ScriptedModel
) -> None:
    rest = threading.Event()
    in_two_parts(model, rest)
    ana.start("conte tudo")
    wait_for_text(ana.page, FIRST[-20:])
    second = ana.tab()
    second.goto(ana.page.url)
    ana.page.reload()
    for page in (ana.page, second):
        wait_for_text(page, FIRST[-20:])
    rest.set()
    for page in (ana.page, second):
        wait_for_text(page, SECOND[-20:])
        page.wait_for_selector("#stop", state="hidden")
        assert texts(page) == [FIRST, SECOND]
    ana.page.reload()
    wait_for_text(ana.page, SECOND[-20:])
    assert texts(ana.page) == [FIRST, SECOND]


def test_web_process_killed_in_mid_answer_costs_no_word(
    ana: Window, model: ScriptedModel, scripted: Stack
) -> None:
    rest = threading.Event()
    in_two_parts(model, rest)
    ana.start("conte tudo")
    wait_for_text(ana.page, FIRST[-20:])
    scripted.kill("web")
    ana.page.locator("#connection", has_text="conexão").wait_for()
    rest.set()
    scripted.start("web")
    wait_for_text(ana.page, SECOND[-20:])
    ana.page.wait_for_selector("#stop", state="hidden")
    assert texts(ana.page) == [FIRST, SECOND]
    assert ana.page.locator("#connection").is_hidden()
    ana.forget_lost_connection()


def test_what_is_written_without_a_server_is_sent_once(
    house: Tenant, ana: Window, model: ScriptedModel, scripted: Stack
) -> None:
    model.route(lambda body: Reply.text("Recebi: " + user_texts(body)[-1]))
    ana.start("olá")
    wait_for_text(ana.page, "Recebi: olá")
    scripted.terminate("web")
    ana.say("escrita sem servidor")
    assert "enviando" in ana.page.locator(".message.fan").last.inner_text()
    scripted.start("web")
    wait_for_text(ana.page, "Recebi: escrita sem servidor")

    def stored() -> int:
        with tenant_scope(house.pk):
            return Message.objects.filter(text="escrita sem servidor").count()

    assert elsewhere(stored) == 1
    assert ana.page.locator(".message.fan", has_text="escrita sem servidor").count() == 1
    ana.forget_lost_connection()


def test_a_fan_whose_answer_has_to_wait_reads_that_it_is_in_line(
    house: Tenant, window: Open, ana: Window, model: ScriptedModel, scripted: Stack
) -> None:
    rest = threading.Event()
    model.route(lambda body: Reply.text("Recebi: " + user_texts(body)[-1]).when(rest))
    fabio = window(scripted)
    fabio.sign_in("fabio")
    tenants = Tenant.objects.filter(pk=house.pk)
    elsewhere(lambda: tenants.update(max_concurrent_runs=1))
    try:
        fabio.start("primeiro")
        model.wait_for_requests(1)
        ana.start("depois")
        waits = ana.page.locator("#log .thinking", has_text="na fila")
        waits.wait_for()
        rest.set()
        wait_for_text(ana.page, "Recebi: depois")
        assert waits.count() == 0
        wait_for_text(fabio.page, "Recebi: primeiro")
    finally:
        elsewhere(lambda: tenants.update(max_concurrent_runs=house.max_concurrent_runs))


def test_stop_keeps_what_was_said(ana: Window, model: ScriptedModel) -> None:
    rest = threading.Event()
    in_two_parts(model, rest)
    ana.start("conte tudo")
    wait_for_text(ana.page, FIRST[-20:])
    ana.page.locator(".step[data-state=succeeded]").wait_for()
    ana.page.click("#stop")
    ana.page.locator(".run .note", has_text="Você parou").wait_for()
    rest.set()
    ana.page.reload()
    ana.page.locator(".run .note", has_text="Você parou").wait_for()
    assert texts(ana.page)[0] == FIRST


def test_message_during_an_answer_is_taken_up_below_it(ana: Window, model: ScriptedModel) -> None:
    rest = threading.Event()

    def answer(body: dict[str, Any]) -> Reply:
        said = user_texts(body)
        if any("mais uma coisa" in text for text in said):
            return Reply.text("A segunda resposta.")
        return Reply.text("A primeira resposta.").when(rest)

    model.route(answer)
    ana.start("uma coisa")
    ana.page.wait_for_selector("#stop", state="visible")
    ana.say("mais uma coisa")
    ana.page.locator(".message.fan", has_text="mais uma coisa").wait_for()
    ana.page.locator(".message .note").wait_for(state="detached")
    rest.set()
    wait_for_text(ana.page, "A segunda resposta.")
    ana.page.wait_for_selector("#stop", state="hidden")
    wanted = ["uma coisa", "A primeira resposta.", "mais uma coisa", "A segunda resposta."]
    assert ana.page.locator("#log .bubble").all_inner_texts() == wanted
    ana.page.reload()
    wait_for_text(ana.page, "A segunda resposta.")
    assert ana.page.locator("#log .bubble").all_inner_texts() == wanted


def test_text_of_the_model_is_never_markup(ana: Window, model: ScriptedModel) -> None:
    hostile = (
        "**Negrito** e <img src=x onerror=\"document.title='roubado'\">\n\n"
        "- <script>document.title='roubado'</script>\n- [clique](javascript:alert(1))"
    )
    model.route(lambda body: Reply.text(hostile))
    ana.start("diga algo")
    wait_for_text(ana.page, "javascript:alert")
    ana.page.wait_for_selector("#stop", state="hidden")
    bubble = ana.page.locator("#log .run .bubble")
    assert bubble.locator("strong").inner_text() == "Negrito"
    assert bubble.locator("li").count() == 2
    assert bubble.locator("img, script, a").count() == 0
    assert "roubado" not in ana.page.title()


def test_failing_step_says_so_and_the_handoff_is_shown(ana: Window, model: ScriptedModel) -> None:
    model.route(lambda body: Reply.tools(("hold_seats", {"event_id": "x", "seat_ids": []})))
    ana.start("reserve errado para sempre")
    ana.page.locator(".step.failed").first.wait_for()
    ana.page.locator(".run .note", has_text="pessoa da bilheteria").wait_for()
    ana.page.wait_for_selector("#stop", state="hidden")


def test_person_of_the_box_office_answers_in_the_same_chat(
    window: Open, ana: Window, model: ScriptedModel, scripted: Stack
) -> None:
    model.route(lambda body: Reply.text("Um momento."))
    ana.start("quero falar com alguém")
    wait_for_text(ana.page, "Um momento.")
    rita = window(scripted)
    rita.sign_in("rita")
    rita.page.goto(ana.page.url)
    rita.say("Olá, aqui é a bilheteria.")
    ana.page.locator(".message.human", has_text="aqui é a bilheteria").wait_for()
    rita.page.locator(".message.human", has_text="aqui é a bilheteria").wait_for()

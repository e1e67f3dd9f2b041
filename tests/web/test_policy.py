"""Rules in the console, in Chromium: written, refused, tried, put in shadow; on a phone too."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tests.support.stack import Stack
from tests.tools.proposing import caller_in, put
from tests.web.chat import Window, elsewhere

WRONG = """\
rules:
  - name: sem rock
    tools: [search_events]
    when: args.pesquisa == 'rock'
    effect: deny
"""
RIGHT = WRONG.replace("args.pesquisa", "has(args.query) && args.query")


@pytest.fixture(scope="module")
def site(house: Tenant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(home=tmp_path_factory.mktemp("policy"), workers=0, beat=False) as stack:
        yield stack


def ask_for_rock(house: Tenant) -> None:
    with tenant_scope(house.pk):
        put(caller_in(house, "ana"), "search_events", {"query": "rock"})


@pytest.mark.parametrize("viewport", [(1400, 900), (360, 720)], ids=["desk", "phone"])
def test_rules_are_written_tried_and_put_in_shadow(
    site: Stack, browser: Browser, house: Tenant, viewport: tuple[int, int]
) -> None:
    elsewhere(lambda: ask_for_rock(house))
    width, height = viewport
    window = Window(browser, site.url, viewport={"width": width, "height": height})
    page = window.page
    window.sign_in("ada", to="/admin/approvals/policyversion/add/")
    page.fill("#id_source", WRONG)
    page.click("[name=_continue]")
    page.wait_for_selector(".errors")
    said = page.inner_text("body")
    assert "Linha 4, coluna 11" in said
    assert "“pesquisa”" in said
    page.fill("#id_source", RIGHT)
    page.click("[name=_continue]")
    page.wait_for_url("**/change/")
    window.go(page.url.removeprefix(site.url).replace("/change/", "/review/"))
    page.wait_for_selector("#trial-changed")
    assert "sem rock" in page.inner_text("#trial-changed")
    page.click("button[value=shadow]")
    page.wait_for_selector("#shadow-sum")
    assert page.locator("button[value=shadow]").count() == 0
    assert not window.is_too_wide()
    window.close()
    assert window.problems == []

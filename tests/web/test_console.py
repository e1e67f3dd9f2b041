"""The console in Chromium: its scripts and styles run under the content policy that it has."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from boxoffice.tenancy.models import Tenant
from tests.support.stack import Stack
from tests.web.chat import Window

PAGES = (
    "/admin/",
    "/admin/tenancy/tier/",
    "/admin/tenancy/membership/add/",
    "/admin/ticketing/event/",
    "/admin/ticketing/order/",
    "/admin/agents/run/",
    "/admin/tools/toolcall/",
    "/admin/billing/usageentry/",
    "/admin/audit/auditrecord/",
    "/admin/approvals/approvalrequest/",
)


@pytest.fixture(scope="module")
def site(house: Tenant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(home=tmp_path_factory.mktemp("console"), workers=0, beat=False) as stack:
        yield stack


@pytest.fixture
def console(site: Stack, browser: Browser) -> Iterator[Window]:
    window = Window(browser, site.url, viewport={"width": 1500, "height": 900})
    yield window
    window.close()
    assert window.problems == []


def test_a_tenant_admin_walks_through_the_console(console: Window) -> None:
    console.sign_in("ada", to="/admin/")
    for path in PAGES:
        console.go(path)
        console.page.wait_for_load_state("networkidle")
        text = console.page.inner_text("body")
        assert "Teatro Aurora" not in text
        assert console.page.locator("#nav-sidebar").is_visible()


def test_a_tier_is_edited_with_its_list_of_tools(console: Window) -> None:
    console.sign_in("ada", to="/admin/tenancy/tier/")
    console.page.click("text=Enterprise")
    console.page.wait_for_url("**/change/")
    console.page.fill("#id_rate_per_min", "601")
    console.page.click("[name=_save]")
    console.page.wait_for_url("**/admin/tenancy/tier/")
    assert "601" in console.page.inner_text("#result_list")


def test_the_console_speaks_to_who_is_no_staff(console: Window) -> None:
    console.sign_in("ana")
    console.go("/admin/tenancy/tier/")
    assert console.page.url.startswith(f"{console.base}/admin/login/")


@pytest.mark.parametrize("width", [1280, 360])
def test_the_log_of_calls_is_kept_as_a_view_and_taken_away(console: Window, width: int) -> None:
    console.page.set_viewport_size({"width": width, "height": 900})
    console.sign_in("ada", to="/admin/tools/toolcall/?verdict__exact=deny")
    log = console.page.locator("section[aria-label]", has=console.page.locator("[name=wish]"))
    box = log.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    log.locator("input[name=name]").fill(f"Recusadas {width}")
    log.locator("form", has=console.page.locator("[name=wish]")).locator("button").click()
    console.page.wait_for_url("**/toolcall/?verdict__exact=deny")
    kept = console.page.get_by_role("link", name=f"Recusadas {width}", exact=True)
    assert kept.get_attribute("href") == "/admin/tools/toolcall/?verdict__exact=deny"
    with console.page.expect_download() as taken:
        console.page.locator("form[action*='/export/csv/']").locator("button").click()
    assert taken.value.suggested_filename.endswith(".csv")
    first = taken.value.path().read_text().splitlines()[0]
    assert first.startswith("proposed_at,tenant,id,tool,")

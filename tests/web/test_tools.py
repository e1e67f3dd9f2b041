"""Tools in the console, in Chromium: one is switched off with a reason, on a desk and a phone."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tests.support.stack import Stack
from tests.web.chat import Window, elsewhere
from tools import governance
from tools.models import Tool


@pytest.fixture(scope="module")
def site(house: Tenant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(home=tmp_path_factory.mktemp("tools"), workers=0, beat=False) as stack:
        yield stack


def registered(house: Tenant) -> int:
    """The id of a tool that is on."""
    governance.tools_register()
    with tenant_scope(house.pk):
        governance.tool_switch(tool="create_ticket", is_off=False, reason="de novo", by=None)
    return Tool.objects.get(name="create_ticket").pk


@pytest.mark.parametrize("viewport", [(1400, 900), (360, 720)], ids=["desk", "phone"])
def test_a_tool_is_switched_off_with_a_reason(
    site: Stack, browser: Browser, house: Tenant, viewport: tuple[int, int]
) -> None:
    tool_id = elsewhere(lambda: registered(house))
    width, height = viewport
    window = Window(browser, site.url, viewport={"width": width, "height": height})
    page = window.page
    window.sign_in("ada", to="/admin/tools/tool/")
    page.check(f"input[name=_selected_action][value='{tool_id}']")
    page.evaluate(
        "() => { const form = document.querySelector('#changelist-form');"
        "form.querySelector('select[name=action]').value = 'switch_off'; form.submit() }"
    )
    page.wait_for_selector("#switch-reason")
    assert page.is_checked("input[name=tenants]")
    assert not window.is_too_wide()
    page.fill("#switch-reason", "chamados demais")
    page.click("main button[type=submit], form:has(#switch-reason) button")
    page.wait_for_url("**/admin/tools/tool/")
    window.go(f"/admin/tools/tool/{tool_id}/change/")
    page.wait_for_selector("#tool-tenants")
    assert window.violations() == []
    assert "chamados demais" in page.inner_text("body")
    assert not window.is_too_wide()
    assert window.problems == []
    window.close()

"""A fan's run, walked through again in the console: real processes, the demo model."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agents.models import Run
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import Hold
from tests.support.stack import Stack
from tests.web.chat import Window, elsewhere

type Open = Callable[..., Window]

ASK = "encontre dois assentos abaixo de R$ 300 para sábado e reserve-os"
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def ran(house: Tenant, demo: Stack, window: Open) -> str:
    """The run in which ana found and held two seats."""
    ana = window(demo)
    ana.sign_in("ana")
    ana.start(ASK)
    ana.see(".hold-card[data-state=active]")
    ana.page.locator("#log .run[aria-busy=false] .bubble").wait_for()

    def newest() -> str:
        with tenant_scope(house.pk):
            return str(Run.objects.latest("pk").pk)

    return elsewhere(newest)


def holds(house: Tenant) -> int:
    def count() -> int:
        with tenant_scope(house.pk):
            return Hold.objects.count()

    return elsewhere(count)


def test_a_run_is_replayed_asked_again_and_forked(
    house: Tenant, demo: Stack, window: Open, ran: str, tmp_path: Path
) -> None:
    ada = window(demo, viewport=PHONE)
    ada.sign_in("ada", to="/admin/")
    ada.go(f"/admin/agents/run/{ran}/change/")
    assert not ada.is_too_wide()
    before = holds(house)
    ada.page.screenshot(path=tmp_path / "steps.png", full_page=True)

    ada.page.click(".replay-step:nth-child(1) a[href*='/replay/']")
    ada.page.wait_for_url("**/replay/?from=1")
    assert not ada.is_too_wide()
    ada.page.screenshot(path=tmp_path / "walk.png", full_page=True)
    ada.page.click(".replay-box form button")
    # The demo model keeps to the record: it is asked to the end, and holds nothing.
    ada.page.locator(".replay-again [data-outcome=same_answer]").wait_for()
    assert not ada.is_too_wide()
    assert holds(house) == before
    ada.page.screenshot(path=tmp_path / "asked.png", full_page=True)

    ada.page.click(".replay-box form a[href*='/fork/']")
    ada.page.wait_for_url("**/fork/?from=1")
    assert not ada.is_too_wide()
    ada.page.screenshot(path=tmp_path / "fork.png", full_page=True)
    ada.page.click(".replay form button")
    ada.page.wait_for_url("**/t/arena/c/**")
    ada.page.locator("#log .run[aria-busy=false] .bubble").wait_for()
    # ada's fork found other seats: those of the fan are taken.
    assert holds(house) == before + 1

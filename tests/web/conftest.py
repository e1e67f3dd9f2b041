"""Chromium against the site's real processes; one demo box office, and a stack per file.

Two stacks at once would take each other's work: they share the database and the broker.
"""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from playwright.sync_api import Browser, sync_playwright
from pytest_django import DjangoDbBlocker

from boxoffice.tenancy.models import Tenant
from tests.support.scripted_model import ScriptedModel
from tests.support.stack import Stack
from tests.web.chat import Window

logger = logging.getLogger(__name__)

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="package")
def house(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Tenant]:
    """The demo data, committed for all tests of the folder; `arena`."""
    with django_db_blocker.unblock():
        call_command("seed_demo", quiet=True, yes=True)
        tenant = Tenant.objects.get(slug="arena")
        connection.close()  # a test may end the server
        yield tenant
        call_command("flush", verbosity=0, interactive=False)


@pytest.fixture(scope="module")
def demo(house: Tenant, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The site with the demo model."""
    with Stack(home=tmp_path_factory.mktemp("demo")) as stack:
        yield stack


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedModel]:
    """A scripted model."""
    with ScriptedModel() as server:
        yield server


@pytest.fixture(scope="module")
def scripted(
    house: Tenant, model: ScriptedModel, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """The site with the scripted model."""
    env = {"ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": model.base_url}
    with Stack(home=tmp_path_factory.mktemp("scripted"), env=env) as stack:
        yield stack


@pytest.fixture(scope="package")
def browser(house: Tenant) -> Iterator[Browser]:
    """Chromium; after the ORM work, which its event loop forbids in this thread."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def window(browser: Browser) -> Iterator[Callable[..., Window]]:
    """Opens windows on a stack; none may have logged an error unless the test says which."""
    opened: list[Window] = []

    def open_window(stack: Stack, **context: Any) -> Window:
        opened.append(Window(browser, stack.url, **context))
        return opened[-1]

    yield open_window
    for one in opened:
        # Shown by pytest when the test has failed.
        logger.info("%s %s", one.page.url, one.page.inner_text("main"))
        one.close()
    assert [problem for one in opened for problem in one.problems] == []

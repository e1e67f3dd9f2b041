"""The chat page as a person uses it, in Chromium."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.db import connection
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

WAIT_MS = 60_000
SERIOUS = {"serious", "critical"}


def elsewhere[R](work: Callable[[], R]) -> R:
    """ORM work while Playwright's event loop holds this thread."""

    def unit() -> R:
        try:
            return work()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(unit).result(60)


class Window:
    """A browser window of one person: what the page logs and refuses is kept."""

    def __init__(self, browser: Browser, base: str, **context: Any) -> None:
        self.base = base
        self.problems: list[str] = []
        self.context: BrowserContext = browser.new_context(locale="pt-BR", **context)
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.tab()

    def tab(self) -> Page:
        """Another tab."""
        page = self.context.new_page()
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        return page

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def sign_in(self, name: str, *, to: str = "/t/arena/new/") -> None:
        """Sign in through the form, and go to a page."""
        self.page.goto(f"{self.base}/accounts/login/?next={to}")
        self.page.fill("#id_username", name)
        self.page.fill("#id_password", "demo")
        self.page.click("main button[type=submit]")
        self.page.wait_for_url(f"**{to}")

    def go(self, path: str) -> None:
        """Open a page of the site."""
        self.page.goto(f"{self.base}{path}")

    def read_in(self, language: str) -> None:
        """Choose a language, and wait until the page and its script are there in it."""
        with self.page.expect_event("load"):
            self.page.click(f"button[name=language][value={language}]")
        self.page.wait_for_selector(f"html[lang={language}]")

    def say(self, text: str) -> None:
        """Write a message and press Enter."""
        self.page.fill("#text", text)
        self.page.press("#text", "Enter")

    def start(self, text: str) -> None:
        """The first message of a conversation."""
        self.say(text)
        self.page.wait_for_url("**/c/**")

    def see(self, selector: str, **options: Any) -> str:
        """Wait for something; its text."""
        return self.page.locator(selector).last.inner_text(**options)

    def shown(self) -> str:
        """Everything in the log."""
        return self.page.inner_text("#log")

    def answer_texts(self) -> list[str]:
        """What the assistant said, bubble by bubble."""
        return self.page.locator("#log .run .bubble").all_inner_texts()

    def is_too_wide(self) -> bool:
        """Whether the page must be moved sideways."""
        return bool(
            self.page.evaluate("document.documentElement.scrollWidth > document.body.clientWidth")
        )

    def violations(self) -> list[str]:
        """What axe-core finds serious."""
        found = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in SERIOUS
            for node in one["nodes"]
        ]

    def forget_lost_connection(self) -> None:
        """The test took the server away: what the browser said of that is no problem."""
        self.problems = [
            one
            for one in self.problems
            # A handshake may also meet a server that is just closing.
            if "ERR_CONNECTION" not in one
            and not one.startswith("WebSocket connection to")
            and "status of 503" not in one
        ]

    def close(self) -> None:
        """Close the window."""
        self.context.close()

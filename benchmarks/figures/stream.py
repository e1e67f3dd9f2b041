"""From the model's socket to the page's: the first token, and many conversations at once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import aiohttp
import uvloop
from django.db import connection

from benchmarks.browser import Page
from benchmarks.machine import sdk_row, sdk_token_us
from benchmarks.processes import cpu_seconds, paced_model, site
from benchmarks.sizes import Size
from benchmarks.stage import Stage, make_stage, session_cookie, wish
from benchmarks.table import Figure, Row, quantile
from boxoffice.tenancy.models import User
from boxoffice.tenancy.scope import tenant_scope
from tests.support.stack import Stack

DELAY_MS = 20.0  # 50 tokens a second
GIVE_UP_SECONDS = 180.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where a fan's page is."""

    path: str
    cookie: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What all pages of one round were shown."""

    pages: list[Page]
    tokens: int

    @property
    def lost(self) -> int:
        """Tokens that a page was never shown."""
        return sum(page.lost(self.tokens) for page in self.pages)

    @property
    def repeated(self) -> int:
        """Tokens that a page was shown again."""
        return sum(page.repeated for page in self.pages)

    @property
    def recovered(self) -> int:
        """Answers whose end came from the database."""
        return sum(page.recovered for page in self.pages)

    def latency(self, share: float) -> float:
        """Milliseconds from the model to the page."""
        return quantile([ms for page in self.pages for _, ms in page.latencies], share)

    def steady(self) -> list[float]:
        """The same, one by one, of the tokens that the model sent while all answers were on."""
        begun = max(min(sent for sent, _ in page.latencies) for page in self.pages)
        over = min(max(sent for sent, _ in page.latencies) for page in self.pages)
        return [ms for page in self.pages for sent, ms in page.latencies if begun <= sent <= over]

    def first(self, share: float) -> float:
        """The same of each answer's first token."""
        return quantile([each for page in self.pages for each in page.first], share)


def measure(size: Size) -> Figure:
    """One page alone, then many at once, then many of which some lose their connection."""
    stage = make_stage("bench-stream", fans=size.crowd, tools=[])
    places = [_place(stage, fan) for fan in stage.fans]
    connection.close()
    with (
        paced_model() as (url, model_pid),
        site(model=url, workers=1, web=True, runs_per_worker=size.crowd + 20) as stack,
    ):
        one = wish(tokens=5, delay_ms=DELAY_MS)
        _watch(stack, places[:1], 5, lambda page, _: page.ask(one))  # connections, imports
        alone = _watch(stack, places[:1], 5, lambda page, _: _repeat(page, one, size.talks))
        text = wish(tokens=size.crowd_tokens, delay_ms=DELAY_MS)
        pids = {"web": stack.pid("web"), "worker": stack.pid("worker0"), "model": model_pid}
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        many = _watch(stack, places, size.crowd_tokens, lambda page, _: page.ask(text))
        cpu = {name: cpu_seconds(pid) - before[name] for name, pid in pids.items()}

        def visit(page: Page, number: int) -> Awaitable[None]:
            if number < size.reconnects:
                return page.ask_and_come_back(text, size.crowd_tokens // 2)
            return page.ask(text)

        returned = _watch(stack, places, size.crowd_tokens, visit)
        machine = sdk_token_us(url)
    return Figure(
        name="stream",
        title="From the model's socket to the page's (uvicorn, Celery, Valkey, a WebSocket each)",
        rows=[*_rows(size, alone, many, returned, cpu), sdk_row(machine)],
    )


def _rows(
    size: Size, alone: Watched, many: Watched, returned: Watched, cpu: dict[str, float]
) -> list[Row]:
    crowd = f"{size.crowd} conversations"
    is_judged = size.crowd == 100
    tokens = size.crowd * size.crowd_tokens
    frames = sum(page.frames for page in many.pages)
    steady = many.steady()
    return [
        Row(figure="first token, 1 conversation, p50", value=alone.first(0.5), unit="ms"),
        Row(figure="first token, 1 conversation, p95", value=alone.first(0.95), unit="ms"),
        Row(figure=f"first token, {crowd} begun at once, p50", value=many.first(0.5), unit="ms"),
        Row(figure=f"first token, {crowd} begun at once, p95", value=many.first(0.95), unit="ms"),
        Row(figure=f"every token, {crowd} begun at once, p50", value=many.latency(0.5), unit="ms"),
        Row(figure=f"every token, {crowd} begun at once, p95", value=many.latency(0.95), unit="ms"),
        *(
            Row(
                figure=f"  while all {crowd} stream 50/s, p{share * 100:.0f}",
                value=quantile(steady, share),
                unit="ms",
                expected=f"<= {aim} ms" if is_judged else "",
                reference=f"{aim} ms" if is_judged else "",
            )
            for share, aim in ((0.5, 25), (0.95, 50))
            if steady
        ),
        Row(figure="  tokens lost", value=many.lost, unit="", expected="0", reference="0"),
        Row(figure="  tokens repeated", value=many.repeated, unit="", expected="0", reference="0"),
        Row(figure="  ends told by the database", value=many.recovered, unit="", expected="0"),
        Row(figure="  tokens per frame", value=tokens / frames, unit=""),
        *(
            Row(figure=f"  CPU per token, {name}", value=used / tokens * 1e6, unit="µs")
            for name, used in cpu.items()
        ),
        Row(
            figure=f"tokens lost, {size.reconnects} pages reconnected meanwhile",
            value=returned.lost,
            unit="",
            expected="0",
            reference="0; Channels' layers lost 32-71 %" if is_judged else "",
        ),
        Row(figure="  tokens repeated", value=returned.repeated, unit="", expected="0"),
    ]


def _place(stage: Stage, fan: User) -> Place:
    with tenant_scope(stage.tenant.pk):
        conversation = stage.conversation(fan)
    path = f"/t/{stage.tenant.slug}/ws/conversations/{conversation.pk}/"
    return Place(path, session_cookie(fan))


def _watch(
    stack: Stack,
    places: list[Place],
    tokens: int,
    visit: Callable[[Page, int], Awaitable[None]],
) -> Watched:
    """Open a page at each place, let all be visited at once, and keep what they were shown."""
    pages = uvloop.run(_visit_all(stack, places, visit))
    return Watched(pages=pages, tokens=tokens)


async def _visit_all(
    stack: Stack, places: list[Place], visit: Callable[[Page, int], Awaitable[None]]
) -> list[Page]:
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        asyncio.timeout(GIVE_UP_SECONDS),
        aiohttp.ClientSession(connector=connector) as session,
        AsyncExitStack() as open_pages,
    ):
        pages = [
            Page(
                session=session,
                url=stack.url.replace("http", "ws", 1) + place.path,
                headers={"Cookie": f"sessionid={place.cookie}", "Origin": stack.url},
            )
            for place in places
        ]
        await asyncio.gather(*map(open_pages.enter_async_context, pages))
        await asyncio.gather(*(visit(page, number) for number, page in enumerate(pages)))
    return pages


async def _repeat(page: Page, text: str, times: int) -> None:
    for _ in range(times):
        await page.ask(text)

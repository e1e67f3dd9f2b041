"""The demo's payment provider over HTTP, on a port of 127.0.0.1 and in the caller's event loop.

``POST /v1/charges {"amount_minor"}`` and ``POST /v1/refunds {"charge", "amount_minor"}``, each with
an ``Idempotency-Key``; ``GET /v1/movements/<key>`` says what became of one. A key is done once: a
repeat is answered as the first time. Its money is not real.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Any

from aiohttp import web

from boxoffice.acquirer.book import DECLINED, Book, Entry

KEY = "Idempotency-Key"
MOST_KEY = 200


class Trouble(StrEnum):
    """What a request can meet, for tests: each before or after the money has moved."""

    DECLINE = "decline"
    ERROR = "error"
    ERROR_AFTER = "error_after"
    SILENCE = "silence"
    SILENCE_AFTER = "silence_after"
    DROP = "drop"
    DROP_AFTER = "drop_after"
    BUSY = "busy"


type Plan = Callable[[web.Request], Trouble | None]


def no_trouble(request: web.Request) -> Trouble | None:
    """Everything works."""
    return None


@asynccontextmanager
async def serving(book: Book, plan: Plan = no_trouble, port: int = 0) -> AsyncIterator[str]:
    """Serve in the running loop, on a free port; gives the address."""
    runner = web.AppRunner(
        build_app(book, plan), handler_cancellation=True, shutdown_timeout=0.1, access_log=None
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        host, bound = runner.addresses[0][:2]
        yield f"http://{host}:{bound}"
    finally:
        await runner.cleanup()


def build_app(book: Book, plan: Plan = no_trouble) -> web.Application:
    """The provider as an aiohttp application; ``plan`` says which requests meet trouble."""
    desk = _Desk(book, plan)
    app = web.Application()
    app.router.add_post("/v1/charges", desk.charge)
    app.router.add_post("/v1/refunds", desk.refund)
    app.router.add_get("/v1/movements/{key}", desk.movement)
    return app


class _Desk:
    def __init__(self, book: Book, plan: Plan) -> None:
        self._book = book
        self._plan = plan

    async def charge(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        return await self._move(request, body, charge_key="")

    async def refund(self, request: web.Request) -> web.StreamResponse:
        body = await _body(request)
        charge_key = body.get("charge")
        if not isinstance(charge_key, str) or not charge_key:
            return _problem(400, "charge_missing")
        return await self._move(request, body, charge_key=charge_key)

    async def movement(self, request: web.Request) -> web.StreamResponse:
        trouble = self._plan(request)
        if trouble is not None:
            return await _meet(request, trouble)
        entry = await asyncio.to_thread(self._book.find, request.match_info["key"])
        return _problem(404, "not_found") if entry is None else _answer(entry)

    async def _move(
        self, request: web.Request, body: dict[str, Any], charge_key: str
    ) -> web.StreamResponse:
        key, amount = request.headers.get(KEY, ""), body.get("amount_minor")
        if not 1 <= len(key) <= MOST_KEY:
            return _problem(400, "key_missing")
        if not isinstance(amount, int) or isinstance(amount, bool) or amount < 0:
            return _problem(400, "amount_invalid")
        trouble = self._plan(request)
        if trouble in (Trouble.ERROR, Trouble.SILENCE, Trouble.DROP, Trouble.BUSY):
            return await _meet(request, trouble)
        wanted = Entry(
            key=key,
            amount_minor=amount,
            charge_key=charge_key,
            refusal=DECLINED if trouble is Trouble.DECLINE else "",
        )
        done = await asyncio.to_thread(self._book.enter, wanted)
        if trouble is not None and trouble is not Trouble.DECLINE:
            return await _meet(request, trouble)
        if (done.amount_minor, done.charge_key) != (amount, charge_key):
            return _problem(409, "key_reused")
        return _answer(done)


async def _body(request: web.Request) -> dict[str, Any]:
    try:
        body = json.loads(await request.read())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise web.HTTPBadRequest(
            text=json.dumps({"error": "invalid_json"}), content_type="application/json"
        )
    return body


async def _meet(request: web.Request, trouble: Trouble) -> web.StreamResponse:
    match trouble:
        case Trouble.BUSY:
            return _problem(429, "too_many_requests")
        case Trouble.SILENCE | Trouble.SILENCE_AFTER:
            await asyncio.sleep(3600)  # ends when the client hangs up
        case Trouble.DROP | Trouble.DROP_AFTER:
            if request.transport is not None:
                request.transport.abort()
    return _problem(500, "internal_error")


def _answer(entry: Entry) -> web.Response:
    data = {
        "id": f"mv_{entry.key}",
        "key": entry.key,
        "amount_minor": entry.amount_minor,
        "currency": "BRL",
        "charge": entry.charge_key,
        "status": "refused" if entry.refusal else "done",
        "reason": entry.refusal,
    }
    return web.json_response(data, status=402 if entry.refusal else 200)


def _problem(status: int, code: str) -> web.Response:
    return web.json_response({"error": code}, status=status)

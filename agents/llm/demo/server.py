"""The Messages API of the demo model, on a port of 127.0.0.1 and in the caller's event loop."""

import asyncio
import json
from typing import Any

from aiohttp import web

from agents.llm import wire
from agents.llm.demo.plan import reply_blocks

DEMO_TOKEN_DELAY_MS = 12.0
MAX_REQUEST_BYTES = 32 * 2**20  # what the API accepts too
_ROUTES = ("/v1/messages", "/v1/messages/count_tokens")


class DemoServer:
    """A running demo model; `base_url` is what the SDK is given."""

    def __init__(self, runner: web.AppRunner) -> None:
        self._runner = runner
        host, port = runner.addresses[0][:2]
        self.base_url = f"http://{host}:{port}"

    async def close(self) -> None:
        """Stop serving; answers in the middle of a stream are cut."""
        await self._runner.cleanup()


async def start_demo_server(*, token_delay_ms: float = DEMO_TOKEN_DELAY_MS) -> DemoServer:
    """Serve the demo model in the running loop on a free port; `token_delay_ms` paces streams."""
    runner = web.AppRunner(
        build_app(token_delay_ms=token_delay_ms),
        handler_cancellation=True,
        shutdown_timeout=0.1,
        access_log=None,
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    return DemoServer(runner)


def build_app(*, token_delay_ms: float = DEMO_TOKEN_DELAY_MS) -> web.Application:
    """Return the Messages API as an aiohttp application."""
    delay = token_delay_ms / 1000

    async def create_message(request: web.Request) -> web.StreamResponse:
        body = await _read_body(request)
        message = wire.build_message(body=body, blocks=reply_blocks(body))
        if body.get("stream"):
            return await _stream(request, message, delay)
        headers = {"request-id": wire.new_request_id()}
        return web.json_response(message.as_json(), headers=headers)

    async def count_tokens(request: web.Request) -> web.StreamResponse:
        body = await _read_body(request, is_count=True)
        headers = {"request-id": wire.new_request_id()}
        return web.json_response({"input_tokens": wire.count_request_tokens(body)}, headers=headers)

    app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=[_errors_as_api_errors])
    app.router.add_post(_ROUTES[0], create_message)
    app.router.add_post(_ROUTES[1], count_tokens)
    return app


class _Refused(Exception):
    """The request gets an error body instead of an answer."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(message)
        self.error_type = error_type


@web.middleware
async def _errors_as_api_errors(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except _Refused as refused:
        return _error(refused.error_type, str(refused))
    except web.HTTPRequestEntityTooLarge:
        return _error("request_too_large", "Request exceeds the maximum size")
    except web.HTTPException as failure:
        return _error("not_found_error", failure.reason)
    return response


async def _read_body(request: web.Request, *, is_count: bool = False) -> wire.Json:
    try:
        body = json.loads(await request.read())
    except ValueError as failure:
        raise _Refused("invalid_request_error", "The request body is not valid JSON") from failure
    # Counting needs no `max_tokens`; all else is checked alike.
    checked = {**body, "max_tokens": 1} if is_count and isinstance(body, dict) else body
    problem = wire.request_problem(checked)
    if problem:
        raise _Refused("invalid_request_error", problem)
    checked_body: wire.Json = body
    return checked_body


def _error(error_type: str, message: str) -> web.Response:
    request_id = wire.new_request_id()
    return web.json_response(
        wire.error_body(error_type, message, request_id=request_id),
        status=wire.STATUS_OF_ERROR[error_type],
        headers={"request-id": request_id},
    )


async def _stream(request: web.Request, message: wire.Message, delay: float) -> web.StreamResponse:
    response = web.StreamResponse(headers=wire.stream_headers(wire.new_request_id()))
    await response.prepare(request)
    for frame in message.frames():
        if frame.is_delta and delay:
            await asyncio.sleep(delay)
        await response.write(frame.encode())
    return response

"""The inbox's socket: reviewers hear of their tenant's requests, and of nothing else."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.test import Client

from approvals import services
from boxoffice.config.asgi import application
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast

pytestmark = pytest.mark.django_db(transaction=True)


class Page:
    """A page's end of the socket."""

    def __init__(self, client: Client, slug: str) -> None:
        cookies = "; ".join(f"{name}={one.value}" for name, one in client.cookies.items())
        headers = [(b"host", b"localhost"), (b"origin", b"http://localhost")]
        scope = {
            "type": "websocket",
            "path": f"/t/{slug}/ws/approvals/",
            "query_string": b"",
            "headers": [*headers, (b"cookie", cookies.encode())],
            "subprotocols": [],
        }
        self.end = ApplicationCommunicator(application, scope)

    async def output(self) -> dict[str, Any]:
        found: dict[str, Any] = await self.end.receive_output(10)
        return found

    async def heard(self) -> dict[str, Any]:
        output = await self.output()
        assert output["type"] == "websocket.send", output
        found: dict[str, Any] = json.loads(output["text"])
        return found


@asynccontextmanager
async def socket(client: Client, slug: str = "arena") -> AsyncIterator[Page]:
    page = Page(client, slug)
    await page.end.send_input({"type": "websocket.connect"})
    yield page
    await page.end.send_input({"type": "websocket.disconnect", "code": 1000})
    await page.end.wait(10)


async def opened(page: Page) -> None:
    assert (await page.output())["type"] == "websocket.accept"
    assert await page.heard() == {"type": "ready"}


def approve(cast: Cast, request_id: Any, name: str) -> None:
    with tenant_scope(cast.arena.pk):
        services.approve(request_id=request_id, principal=cast.principal(name))


async def test_a_reviewer_hears_of_every_change(cast: Cast, ask: Any) -> None:
    async with socket(await sync_to_async(cast.client)("rita")) as page:
        await opened(page)
        await page.end.send_input({"type": "websocket.receive", "text": "not JSON"})
        request = await sync_to_async(ask)(quorum=2)
        told = {"type": "changed", "approval": str(request.pk)}
        assert await page.heard() == told | {"state": "pending"}
        await sync_to_async(approve)(cast, request.pk, "rita")
        assert await page.heard() == told | {"state": "pending"}
        await sync_to_async(approve)(cast, request.pk, "raul")
        assert await page.heard() == told | {"state": "approved"}


async def test_a_fans_confirmation_and_another_tenant_are_not_heard(cast: Cast, ask: Any) -> None:
    reviewer, stranger = (
        await sync_to_async(cast.client)("rita"),
        await sync_to_async(cast.client)("rui"),
    )
    async with socket(reviewer) as page, socket(stranger, "teatro") as elsewhere:
        await opened(page)
        await opened(elsewhere)
        await sync_to_async(ask)(gate="fan")
        request = await sync_to_async(ask)()
        assert (await page.heard())["approval"] == str(request.pk)
        assert await elsewhere.end.receive_nothing(0.2)


@pytest.mark.parametrize("who", ["ana", None])
async def test_who_may_not_review_is_turned_away(cast: Cast, who: str | None) -> None:
    async with socket(await sync_to_async(cast.client)(who)) as page:
        assert (await page.output())["type"] == "websocket.accept"
        output = await page.output()
        assert (output["type"], output["code"]) == ("websocket.close", 4403)


async def test_no_member_gets_no_handshake(cast: Cast) -> None:
    async with socket(await sync_to_async(cast.client)("rui")) as page:
        assert (await page.output())["type"] == "websocket.close"

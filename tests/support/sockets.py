"""A page's end of the chat socket, in the test's own process."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.test import Client

from boxoffice.config.asgi import application
from tests.support.cast import Cast

type Frame = dict[str, Any]


def cookie_of(client: Client) -> bytes:
    """The cookie header of a test client."""
    return "; ".join(f"{name}={morsel.value}" for name, morsel in client.cookies.items()).encode()


def signed_in(house: Cast, name: str) -> Client:
    """A browser in which a member has signed in."""
    client = Client()
    client.force_login(house.user(name))
    return client


class Page:
    """One open socket: what was received is kept in ``seen``."""

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator
        self.seen: list[Frame] = []

    async def send(self, **frame: Any) -> None:
        """Send a frame."""
        await self.send_text(json.dumps(frame))

    async def send_text(self, text: str) -> None:
        """Send something that need not be JSON."""
        await self._communicator.send_input({"type": "websocket.receive", "text": text})

    async def next(self, seconds: float = 10) -> Frame:
        """The next event."""
        output = await self._communicator.receive_output(seconds)
        assert output["type"] == "websocket.send", output
        frame: Frame = json.loads(output["text"])
        self.seen.append(frame)
        return frame

    async def until(self, wanted: str | Callable[[Frame], bool], seconds: float = 15) -> Frame:
        """Read on until an event of the type, or one that fits."""
        async with asyncio.timeout(seconds):
            while True:
                frame = await self.next(seconds)
                if frame["type"] == wanted if isinstance(wanted, str) else wanted(frame):
                    return frame

    async def is_silent(self, seconds: float = 0.5) -> bool:
        """Whether nothing comes for a while."""
        return bool(await self._communicator.receive_nothing(seconds, interval=0.05))

    async def close_code(self) -> int:
        """The code with which the server closes the socket."""
        output = await self._communicator.receive_output(10)
        assert output["type"] == "websocket.close", output
        return int(output["code"])


@asynccontextmanager
async def page(
    client: Client, conversation_id: UUID | str, *, tenant: str = "arena", origin: str = "localhost"
) -> AsyncIterator[Page]:
    """Open a conversation's socket as the browser does."""
    path = f"/t/{tenant}/ws/conversations/{conversation_id}/"
    communicator: Any = ApplicationCommunicator(  # type: ignore[no-untyped-call]
        application,
        {
            "type": "websocket",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [
                (b"host", b"localhost"),
                (b"origin", f"http://{origin}".encode()),
                (b"cookie", cookie_of(client)),
            ],
            "subprotocols": [],
        },
    )
    await communicator.send_input({"type": "websocket.connect"})
    answer = await communicator.receive_output(10)
    if answer["type"] != "websocket.accept":
        await communicator.send_input({"type": "websocket.disconnect", "code": 1006})
        await communicator.wait(10)
        raise ConnectionRefusedError(answer)
    try:
        yield Page(communicator)
    finally:
        await communicator.send_input({"type": "websocket.disconnect", "code": 1000})
        await communicator.wait(10)


def in_thread[**P, R](work: Callable[P, R]) -> Callable[P, Any]:
    """ORM work of an async test; its connection goes back."""
    result: Callable[P, Any] = database_sync_to_async(work)
    return result

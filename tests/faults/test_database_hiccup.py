"""An open page outlives a database that fails for a while."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError

from agents import services, stream
from agents.loop.events import text_delta
from agents.session import ChatSession
from tests.support.cast import Cast
from tests.support.sockets import in_thread, page, signed_in

FAILURES = 3


def fails_at_first(work: Callable[..., Any], is_over: asyncio.Event) -> Callable[..., Any]:
    """The work, after it has failed a few times."""
    failures = iter(range(FAILURES))

    async def unsteady(*args: Any, **kwargs: Any) -> Any:
        if next(failures, None) is not None:
            raise OperationalError("the connection is lost")
        is_over.set()
        return await work(*args, **kwargs)

    return unsteady


@pytest.mark.parametrize("name", ["glance", "outcome", "message"])
async def test_a_page_goes_on_after_the_database_has_failed(
    arena: Cast, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("agents.consumers.LOOK_SECONDS", 0.1)
    monkeypatch.setattr("agents.consumers.RETRY_SECONDS", 0.05)
    monkeypatch.setattr("agents.following.RETRY_SECONDS", 0.05)
    conversation = await in_thread(arena.conversation)("ana")
    client = await in_thread(signed_in)(arena, "ana")
    is_over = asyncio.Event()
    monkeypatch.setattr(ChatSession, name, fails_at_first(getattr(ChatSession, name), is_over))

    def post() -> Any:
        with arena.scope():
            return services.message_post(
                principal=arena.principal("ana"), conversation_id=conversation.pk, text="por REST"
            )

    async with page(client, conversation.pk) as open_page:
        posted = await in_thread(post)()
        said = await open_page.until("message.posted")
        assert said["message"]["text"] == "por REST"
        await in_thread(stream.publish)(
            run_id=posted.run.pk, epoch=1, floor=0, events=[text_delta("Olá")]
        )
        assert (await open_page.until("text.delta"))["text"] == "Olá"
        async with asyncio.timeout(10):
            await is_over.wait()


async def test_what_was_said_while_the_database_failed_is_shown_after_all(
    arena: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that was: a glance that fails does not count as a look."""

    def lost(*args: Any) -> None:
        return None

    monkeypatch.setattr("agents.notices.group_tell", lost)
    monkeypatch.setattr("agents.consumers.LOOK_SECONDS", 0.05)
    monkeypatch.setattr("agents.session.OVERLAP", timedelta(0))
    works = ChatSession._seen_by_its_owner
    failures: list[OperationalError] = []
    is_failing = threading.Event()
    has_failed = threading.Event()

    def unsteady(*args: Any) -> Any:
        if not is_failing.is_set():
            return works(*args)
        failures.append(OperationalError("the connection is lost"))
        if len(failures) >= FAILURES:
            has_failed.set()
        raise failures[-1]

    monkeypatch.setattr(ChatSession, "_seen_by_its_owner", unsteady)
    conversation = await in_thread(arena.conversation)("ana")
    client = await in_thread(signed_in)(arena, "ana")
    async with page(client, conversation.pk) as open_page:
        assert await open_page.is_silent()
        is_failing.set()
        await in_thread(arena.post)("ana", "agora", conversation)
        assert await asyncio.to_thread(has_failed.wait, 10)
        is_failing.clear()
        said = await open_page.until("message.posted")
    assert said["message"]["text"] == "agora"

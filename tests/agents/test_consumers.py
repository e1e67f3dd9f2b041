"""The chat socket: frames, errors, events in order and once, several pages, lost notices."""

import asyncio
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from agents import services, stream
from agents.consumers import ChatConsumer
from agents.loop.events import run_finished, run_started, step_committed, text_delta
from agents.models import Conversation, Message, Run, RunState
from tests.support.cast import Cast
from tests.support.sockets import in_thread, page, signed_in
from tests.support.stack import free_port

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ana(arena: Cast) -> Client:
    return signed_in(arena, "ana")


@pytest.fixture
def conversation(arena: Cast) -> Conversation:
    return arena.conversation("ana")


@pytest.fixture
def run(arena: Cast, conversation: Conversation) -> Run:
    """A queued run with ana's message."""
    with arena.scope():
        posted = services.message_post(
            principal=arena.principal("ana"), conversation_id=conversation.pk, text="oi"
        )
        assert posted.run is not None
        return posted.run


def texts_of(arena: Cast, conversation: Conversation) -> list[str]:
    with arena.scope():
        return [message.text for message in Message.objects.filter(conversation=conversation)]


def publish(run: Run, *events: dict[str, Any], epoch: int = 1) -> int:
    return stream.publish(run_id=run.pk, epoch=epoch, floor=0, events=list(events))


BAD_FRAMES = [
    ("not json", "invalid_frame"),
    ("[]", "invalid_frame"),
    ('"text"', "invalid_frame"),
    ("", "invalid_frame"),
    ("[" * 100_000, "invalid_frame"),
    ("{}", "unknown_type"),
    ('{"type": 7}', "unknown_type"),
    ('{"type": "drop_tables"}', "unknown_type"),
    ('{"type": "message"}', "invalid_input"),
    ('{"type": "message", "text": "   "}', "invalid_input"),
    ('{"type": "message", "text": ["a"]}', "invalid_input"),
    ('{"type": "message", "text": "a", "client_id": 5}', "invalid_input"),
    (json.dumps({"type": "message", "text": "a" * 100_000}), "invalid_input"),
    ('{"type": "cancel"}', "invalid_input"),
    ('{"type": "cancel", "run": "no id"}', "invalid_input"),
    (json.dumps({"type": "cancel", "run": str(uuid4())}), "not_found"),
    (json.dumps({"type": "confirm", "approval": str(uuid4())}), "not_found"),
    (json.dumps({"type": "decline", "approval": 12}), "invalid_input"),
    ('{"type": "resume", "after": []}', "invalid_input"),
    (json.dumps({"type": "resume", "after": {str(uuid4()): -1}}), "invalid_input"),
    (json.dumps({"type": "resume", "after": {str(uuid4()): 1}}), "not_found"),
]


async def test_bad_frames_are_answered_and_the_socket_stays(
    ana: Client, conversation: Conversation
) -> None:
    async with page(ana, conversation.pk) as open_page:
        for text, code in BAD_FRAMES:
            await open_page.send_text(text)
            error = await open_page.next()
            assert (error["type"], error["code"]) == ("error", code), text[:80]
            assert error["message"]
        await open_page.send(type="message", text="still here", client_id="after")
        assert (await open_page.until("message.accepted"))["client_id"] == "after"


async def test_error_says_what_it_is_about(ana: Client, conversation: Conversation) -> None:
    async with page(ana, conversation.pk) as open_page:
        await open_page.send(type="message", text="", client_id="mine")
        assert (await open_page.next())["client_id"] == "mine"


async def test_message_is_stored_and_its_run_followed(
    arena: Cast, ana: Client, conversation: Conversation
) -> None:
    async with page(ana, conversation.pk) as open_page:
        await open_page.send(type="message", text="dois assentos", client_id="c1")
        accepted = await open_page.until("message.accepted")
        assert accepted["client_id"] == "c1"
        run = await in_thread(arena.run)(accepted["run"])
        await in_thread(publish)(run, run_started(epoch=1, is_resumed=False), text_delta("Olá"))
        delta = await open_page.until("text.delta")
    assert delta == {"run": str(run.pk), "seq": 2, "type": "text.delta", "text": "Olá"}
    assert await in_thread(texts_of)(arena, conversation) == ["dois assentos"]


async def test_same_client_id_is_the_same_message(
    arena: Cast, ana: Client, conversation: Conversation
) -> None:
    async with page(ana, conversation.pk) as open_page:
        await open_page.send(type="message", text="oi", client_id="same")
        first = await open_page.until("message.accepted")
        await open_page.send(type="message", text="oi", client_id="same")
        second = await open_page.until("message.accepted")
    assert (first["message"], first["run"]) == (second["message"], second["run"])
    assert await in_thread(texts_of)(arena, conversation) == ["oi"]


async def test_events_come_in_order_and_once_over_a_reconnect(ana: Client, run: Run) -> None:
    words = [text_delta(f"{number} ") for number in range(40)]
    await in_thread(publish)(run, run_started(epoch=1, is_resumed=False), *words[:10])
    seen: list[dict[str, Any]] = []
    async with page(ana, run.conversation_id) as first:
        await first.send(type="resume", after={str(run.pk): 0})
        await in_thread(publish)(run, *words[10:25])
        while len(seen) < 20:
            seen.append(await first.next())
    await in_thread(publish)(run, *words[25:])
    async with page(ana, run.conversation_id) as second:
        await second.send(type="resume", after={str(run.pk): seen[-1]["seq"]})
        while len(seen) < 41:
            seen.append(await second.next())
        assert await second.is_silent()
    assert [event["seq"] for event in seen] == list(range(1, 42))
    assert "".join(event.get("text", "") for event in seen) == "".join(w["text"] for w in words)


async def test_page_that_says_nothing_is_shown_everything(ana: Client, run: Run) -> None:
    await in_thread(publish)(run, run_started(epoch=1, is_resumed=False), text_delta("tudo"))
    async with page(ana, run.conversation_id) as open_page:
        assert (await open_page.next())["type"] == "run.started"
        assert (await open_page.next())["text"] == "tudo"
        await open_page.send(type="resume", after={str(run.pk): 0})
        assert await open_page.is_silent()


async def test_second_tab_shows_the_message_and_follows_its_run(
    arena: Cast, ana: Client, conversation: Conversation
) -> None:
    async with page(ana, conversation.pk) as one, page(ana, conversation.pk) as two:
        await two.send(type="resume", after={})
        await asyncio.sleep(0.3)  # the second tab joins the group in a task of its own
        await one.send(type="message", text="nas duas abas", client_id="tabs")
        accepted = await one.until("message.accepted")
        posted = await two.until("message.posted")
        assert posted["message"]["id"] == accepted["message"]
        assert posted["message"]["text"] == "nas duas abas"
        assert posted["message"]["client_id"] == "tabs"
        run = await in_thread(arena.run)(accepted["run"])
        await in_thread(publish)(run, text_delta("para as duas"))
        assert (await one.until("text.delta"))["text"] == "para as duas"
        assert (await two.until("text.delta"))["text"] == "para as duas"
    assert [event["type"] for event in one.seen].count("message.posted") <= 1


async def test_answer_of_a_person_arrives(
    arena: Cast, ana: Client, conversation: Conversation
) -> None:
    def answer() -> None:
        with arena.scope():
            services.message_post(
                principal=arena.principal("rita"), conversation_id=conversation.pk, text="Pronto."
            )

    async with page(ana, conversation.pk) as open_page:
        await open_page.send(type="resume", after={})
        await asyncio.sleep(0.3)
        await in_thread(answer)()
        posted = await open_page.until("message.posted")
    assert (posted["message"]["speaker"], posted["message"]["run"]) == ("human", None)


async def test_lost_notice_heals_from_the_database(
    arena: Cast,
    ana: Client,
    conversation: Conversation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lost(*args: Any) -> None:
        return None

    monkeypatch.setattr("agents.notices.group_tell", lost)
    monkeypatch.setattr("agents.consumers.LOOK_SECONDS", 0.2)

    def post() -> None:
        with arena.scope():
            services.message_post(
                principal=arena.principal("ana"), conversation_id=conversation.pk, text="por REST"
            )

    async with page(ana, conversation.pk) as open_page:
        await in_thread(post)()
        posted = await open_page.until("message.posted")
        assert posted["message"]["text"] == "por REST"
        run = await in_thread(arena.run)(posted["message"]["run"])
        await in_thread(publish)(run, text_delta("achado"))
        assert (await open_page.until("text.delta"))["text"] == "achado"


async def test_end_of_a_run_whose_stream_is_gone_is_told_from_the_database(
    arena: Cast, ana: Client, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agents.consumers.LOOK_SECONDS", 0.2)
    monkeypatch.setattr("agents.notices._publish", lambda *args: None)

    def cancel() -> None:
        with arena.scope():
            services.run_cancel(principal=arena.principal("ana"), run_id=run.pk)

    async with page(ana, run.conversation_id) as open_page:
        await open_page.send(type="resume", after={str(run.pk): 0})
        await in_thread(publish)(run, text_delta("meio"))
        await open_page.until("text.delta")
        await in_thread(cancel)()
        end = await open_page.until("run.finished")
        assert end["seq"] == 2
        assert (end["state"], end["recovered"]) == ("cancelled", True)
        assert await open_page.is_silent()


async def test_resume_of_a_finished_run_gives_only_what_came_after(ana: Client, run: Run) -> None:
    await in_thread(publish)(
        run,
        run_started(epoch=1, is_resumed=False),
        text_delta("fim"),
        step_committed(2, "model"),
        run_finished(RunState.SUCCEEDED, "fim"),
    )
    async with page(ana, run.conversation_id) as open_page:
        await open_page.send(type="resume", after={str(run.pk): 2})
        assert (await open_page.next())["type"] == "step.committed"
        assert (await open_page.next())["type"] == "run.finished"
        assert await open_page.is_silent()


async def test_cancel_stops_a_queued_run(arena: Cast, ana: Client, run: Run) -> None:
    async with page(ana, run.conversation_id) as open_page:
        await open_page.send(type="cancel", run=str(run.pk))
        assert (await open_page.until("run.finished"))["state"] == "cancelled"
        await open_page.send(type="cancel", run=str(run.pk))
        await open_page.send(type="message", text="de novo")
        await open_page.until("message.accepted")
    assert (await in_thread(arena.run)(run.pk)).state == RunState.CANCELLED


@pytest.mark.parametrize("name", ["fabio"])
async def test_conversation_of_another_fan_is_closed(
    arena: Cast, conversation: Conversation, name: str
) -> None:
    other = await in_thread(signed_in)(arena, name)
    async with page(other, conversation.pk) as open_page:
        assert await open_page.close_code() == 4404


async def test_conversation_that_does_not_exist_is_closed(ana: Client) -> None:
    async with page(ana, uuid4()) as open_page:
        assert await open_page.close_code() == 4404


@pytest.mark.parametrize(
    ("tenant", "origin"),
    [("teatro", "localhost"), ("nowhere", "localhost"), ("arena", "evil.test")],
)
async def test_handshake_is_refused(
    ana: Client, conversation: Conversation, tenant: str, origin: str
) -> None:
    with pytest.raises(ConnectionRefusedError):
        async with page(ana, conversation.pk, tenant=tenant, origin=origin):
            pass


async def test_visitor_talks_in_their_own_conversation_only(
    arena: Cast, conversation: Conversation
) -> None:
    visitor, stranger = Client(), Client()
    await in_thread(visitor.get)("/t/arena/")
    await in_thread(stranger.get)("/t/arena/")
    mine = await in_thread(_visitor_conversation)(arena, visitor)
    async with page(visitor, mine) as open_page:
        await open_page.send(type="message", text="tem show sábado?", client_id="v")
        assert (await open_page.until("message.accepted"))["run"]
    async with page(stranger, mine) as open_page:
        assert await open_page.close_code() == 4404
    async with page(visitor, conversation.pk) as open_page:
        assert await open_page.close_code() == 4404


def _visitor_conversation(arena: Cast, client: Client) -> UUID:
    with arena.scope():
        return Conversation.objects.create(visitor=client.session["visitor"]).pk


async def test_member_whose_place_ends_is_closed_out(
    arena: Cast,
    ana: Client,
    conversation: Conversation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agents.consumers.LOOK_SECONDS", 0.2)

    def leave() -> None:
        with arena.scope():
            arena.user("ana").memberships.update(is_active=False)

    async with page(ana, conversation.pk) as open_page:
        await in_thread(leave)()
        await open_page.send(type="message", text="ainda posso?")
        assert (await open_page.until("error"))["code"] == "not_found"
        assert await open_page.close_code() == 4404


async def test_valkey_away_is_said_once_and_messages_are_stored(
    arena: Cast,
    ana: Client,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
) -> None:
    settings.REDIS_URL = f"redis://127.0.0.1:{free_port()}/0"
    monkeypatch.setattr("agents.consumers.LOOK_SECONDS", 0.2)
    async with page(ana, run.conversation_id) as open_page:
        error = await open_page.until("error")
        assert error["code"] == "stream_unavailable"
        await open_page.send(type="message", text="guarde isto", client_id="away")
        await open_page.until("message.accepted")
    codes = [event.get("code") for event in open_page.seen]
    assert codes.count("stream_unavailable") == 1
    assert "guarde isto" in await in_thread(texts_of)(arena, run.conversation)


async def test_a_page_that_has_gone_is_not_a_stream_that_is_away() -> None:
    """The server refuses what is sent to it with an ``OSError``, before it says goodbye."""
    consumer = ChatConsumer()

    async def gone(message: object) -> None:
        raise ConnectionResetError

    consumer.base_send = gone
    await consumer._send({"type": "stream.available"})

"""The chat page's WebSocket: frames in, events out."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any
from uuid import UUID

from channels.generic.websocket import AsyncWebsocketConsumer
from channels.layers import get_channel_layer
from django.db import Error
from django.utils.translation import gettext as _
from redis import RedisError

from agents.following import RunFollower, shared
from agents.notices import conversation_group
from agents.session import ChatSession, Glance
from boxoffice.common.exceptions import BoxOfficeError, InvalidInput, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.away import AWAY

logger = logging.getLogger(__name__)

NOT_YOURS = 4404
TRY_AGAIN_LATER = 1013
# A page says first what it has shown; one that says nothing is shown everything.
RESUME_SECONDS = 0.5
LOOK_SECONDS = 5.0
RETRY_SECONDS = 1.0
LISTEN_SECONDS = 3.0
MAX_RESUMED = 100


class InvalidFrame(InvalidInput):
    """The frame is not a JSON object."""

    code = "invalid_frame"


class UnknownType(InvalidInput):
    """The frame asks for something that does not exist."""

    code = "unknown_type"


class ChatConsumer(AsyncWebsocketConsumer):  # type: ignore[misc]
    """One open page of one conversation.

    Notices of the channel layer are listened to by a task of its own instead of by Channels:
    the socket then stays when Valkey goes, and messages are stored all the same.
    """

    channel_layer_alias = ""

    async def connect(self) -> None:
        """Take the page in, unless the conversation is not the principal's to see."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._followers: dict[UUID, RunFollower] = {}
        self._positions: dict[UUID, int] = {}
        self._announced: set[UUID] = set()
        self._undone: set[tuple[UUID, str]] = set()
        self._ready = asyncio.Event()
        self._is_away = False
        self._is_database_away = False
        self._session = ChatSession(
            tenant_id=self.scope["tenant"].pk,
            principal=self.scope["principal"],
            conversation_id=self.scope["url_route"]["kwargs"]["conversation_id"],
            language=self.scope["cookies"].get("django_language", ""),
        )
        await self.accept()
        try:
            self._announced = await self._session.open()
        except NotFound:
            await self.close(NOT_YOURS)
            return
        except AWAY:
            await self._database_away()
            await self.close(TRY_AGAIN_LATER)
            return
        for work in (self._begin(), self._listen(), self._look_again()):
            self._spawn(work)

    async def disconnect(self, code: int) -> None:
        """Let go of everything."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Answer one frame; what cannot be done is an ``error`` event, and the socket stays."""
        about: JsonObject = {}
        try:
            frame = _parsed(text_data)
            about = {k: frame[k] for k in ("client_id", "run", "approval") if k in frame}
            await self._handler(frame)(frame)
        except BoxOfficeError as error:
            await self._tell_error(error.code, self._session.words(error), **about)
        except AWAY as error:
            logger.warning("a frame was not served: %s", type(error).__name__)
            await self._database_away(**about)
        finally:
            self._ready.set()

    def _handler(self, frame: JsonObject) -> Callable[[JsonObject], Awaitable[None]]:
        handlers = {
            "resume": self._on_resume,
            "message": self._on_message,
            "cancel": self._on_cancel,
            "confirm": self._on_decision,
            "decline": self._on_decision,
            "withdraw": self._on_decision,
        }
        kind = frame.get("type")
        if not isinstance(kind, str) or kind not in handlers:
            known = ", ".join(handlers)
            raise UnknownType(_("type: one of %(known)s.") % {"known": known})
        return handlers[kind]

    async def _on_resume(self, frame: JsonObject) -> None:
        after = frame.get("after", {})
        if not isinstance(after, dict) or len(after) > MAX_RESUMED:
            raise InvalidInput(_("after: the last number seen, by run."))
        wanted = {_uuid("after", run): _number(seq) for run, seq in after.items()}
        known = await self._session.runs_known(list(wanted))
        for run_id in wanted.keys() & known:
            self._positions.setdefault(run_id, wanted[run_id])
            self._follow(run_id)
        unknown = wanted.keys() - known
        if unknown:
            runs = ", ".join(sorted(str(run_id) for run_id in unknown))
            raise NotFound(_("after: no such run: %(runs)s.") % {"runs": runs})

    async def _on_message(self, frame: JsonObject) -> None:
        client_id = frame.get("client_id")
        if client_id is not None and not isinstance(client_id, str):
            raise InvalidInput(_("client_id: a string."))
        message = await self._session.post(text=frame.get("text"), client_id=client_id)
        self._announced.add(UUID(message["id"]))
        await self._send(
            {
                "type": "message.accepted",
                "client_id": client_id,
                "message": message["id"],
                "run": message["run"],
                "created_at": message["created_at"],
            }
        )
        if message["run"] is not None:
            self._follow(UUID(message["run"]))

    async def _on_cancel(self, frame: JsonObject) -> None:
        run_id = _uuid("run", frame.get("run"))
        undo = frame.get("compensate", False)
        if not isinstance(undo, bool):
            raise InvalidInput(_("compensate: true or false."))
        await self._session.cancel(run_id=run_id, undo=undo)
        if not undo:  # with it the run may be over for long, and there is nothing to follow
            self._follow(run_id)

    async def _on_decision(self, frame: JsonObject) -> None:
        approval_id = _uuid("approval", frame.get("approval"))
        await self._session.decide(verb=frame["type"], approval_id=approval_id)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            logger.error("work of a socket failed", exc_info=task.exception())

    def _follow(self, run_id: UUID) -> None:
        if run_id in self._followers:
            return
        follower = RunFollower(
            run_id=run_id,
            after=self._positions.get(run_id, 0),
            send=self._send,
            outcome=self._session.outcome,
            on_away=self._stream_away,
        )
        self._followers[run_id] = follower
        self._spawn(follower.run())

    async def _begin(self) -> None:
        """Follow what is under way, once the page has said what it has."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RESUME_SECONDS):
                await self._ready.wait()
        try:
            glance = await self._session.glance(followed=[])
        except AWAY:
            return  # the next look finds the same
        await self._heal(glance)

    async def _listen(self) -> None:
        """Notices of new messages; after each interruption the database is looked at."""
        while True:
            try:
                await self._hear()
            except (RedisError, OSError, Error) as error:
                logger.info("notices cannot be heard: %s", type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _hear(self) -> None:
        layer = get_channel_layer()
        if layer is None:
            return
        async with asyncio.timeout(LISTEN_SECONDS):
            channel = await layer.new_channel()
        group = conversation_group(self._session.conversation_id)
        try:
            async with asyncio.timeout(LISTEN_SECONDS):
                await layer.group_add(group, channel)
            while True:
                await self._take_notice(await layer.receive(channel))
        finally:
            with suppress(RedisError, OSError):
                async with asyncio.timeout(LISTEN_SECONDS):
                    await layer.group_discard(group, channel)

    async def _take_notice(self, notice: JsonObject) -> None:
        if notice["type"] == "tool.undone":
            await self._tell_undone(UUID(notice["call"]))
            return
        run = notice["run"]
        if run is not None and UUID(run) not in self._followers:
            # It may be a message that the page has, and that another run answers now.
            self._announced.discard(UUID(notice["message"]))
        await self._announce(UUID(notice["message"]))

    async def _announce(self, message_id: UUID) -> None:
        if message_id in self._announced:
            return
        message = await self._session.message(message_id)
        if message is None or message_id in self._announced:
            return
        self._announced.add(message_id)
        await self._send({"type": "message.posted", "message": message})
        if message["run"] is not None:
            self._follow(UUID(message["run"]))

    async def _tell_undone(self, call_id: UUID) -> None:
        undone = await self._session.undone(call_id)
        if undone is None or (call_id, undone["undo"]) in self._undone:
            return
        self._undone.add((call_id, undone["undo"]))
        await self._send({"type": "tool.undone", **undone})

    async def _look_again(self) -> None:
        """Every few seconds: what the notices and the stream may have lost."""
        while True:
            await asyncio.sleep(RETRY_SECONDS if self._is_database_away else LOOK_SECONDS)
            if await shared().health.is_well():
                await self._stream_back()
            else:
                await self._stream_away()
            followed = [run for run, f in self._followers.items() if not f.is_done]
            try:
                await self._heal(await self._session.glance(followed=followed))
                await self._database_back()
            except NotFound:
                await self.close(NOT_YOURS)
                return
            except Error as error:  # whoever ended here would never look again
                logger.warning("a conversation was not looked at: %s", type(error).__name__)
                if not self._is_database_away:
                    await self._database_away()

    async def _heal(self, glance: Glance) -> None:
        for message_id in glance.messages:
            await self._announce(message_id)
        for run_id in glance.unfinished:
            self._follow(run_id)
        for run_id in glance.over:
            self._followers[run_id].expect_end()
        for call_id, state in glance.undone:
            if (call_id, state) not in self._undone:
                await self._tell_undone(call_id)

    async def _stream_away(self) -> None:
        if self._is_away:
            return
        self._is_away = True
        await self._tell_error("stream_unavailable", self._session.stream_is_away())

    async def _stream_back(self) -> None:
        if self._is_away:
            self._is_away = False
            await self._send({"type": "stream.available"})

    async def _database_away(self, **about: Any) -> None:
        """What was asked was not done; the page keeps it, and says it again."""
        self._is_database_away = True
        error = self._session.database_away()
        await self._tell_error(error.code, self._session.words(error), **about)

    async def _database_back(self) -> None:
        if self._is_database_away:
            self._is_database_away = False
            await self._send({"type": "database.available"})

    async def _tell_error(self, code: str, message: str, **about: Any) -> None:
        await self._send({"type": "error", "code": code, "message": message, **about})

    async def _send(self, event: JsonObject) -> None:
        # A page that has gone is told nothing: the server says so in its own way first, and
        # ``disconnect`` follows. It must not be taken for a stream that is away.
        with suppress(OSError):
            await self.send(json.dumps(event, ensure_ascii=False, separators=(",", ":")))


def _parsed(text: str | None) -> JsonObject:
    try:
        frame = json.loads(text or "")
    except (ValueError, RecursionError):
        raise InvalidFrame(_("This is not JSON.")) from None
    if not isinstance(frame, dict):
        raise InvalidFrame(_("A frame is a JSON object with a type."))
    return frame


def _uuid(name: str, value: object) -> UUID:
    try:
        return UUID(value if isinstance(value, str) else "")
    except ValueError:
        raise InvalidInput(_("%(name)s: an id.") % {"name": name}) from None


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidInput(_("after: a number, 0 or more."))
    return value

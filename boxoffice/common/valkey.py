"""Short questions to Valkey, for callers that go on without an answer.

An answer that does not come within a blink (``VALKEY_PATIENCE_SECONDS``) is not waited for, and for
two seconds after that nobody in this process asks: a Valkey that is away costs a short wait now and
then, not one for each caller.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings
from redis.exceptions import NoScriptError

logger = logging.getLogger(__name__)

AWAY_SECONDS = 2.0
MOST_AT_ONCE = 200


class ValkeyAway(Exception):
    """There was no answer in time; whoever asked decides what holds without one."""


class Script:
    """A Lua script, by its digest after the first use."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class Question:
    """One run of a script."""

    script: Script
    keys: Sequence[str]
    arguments: Sequence[Any]

    @property
    def words(self) -> list[Any]:
        """Keys and arguments as EVALSHA wants them."""
        return [len(self.keys), *self.keys, *self.arguments]


class _Absence:
    """Until when nobody asks."""

    def __init__(self) -> None:
        self._until = 0.0

    def check(self) -> None:
        if time.monotonic() < self._until:
            raise ValkeyAway

    def begin(self, error: Exception) -> ValkeyAway:
        if time.monotonic() >= self._until:
            logger.warning("Valkey does not answer: %s", type(error).__name__)
        self._until = time.monotonic() + AWAY_SECONDS
        return ValkeyAway(type(error).__name__)

    def forget(self) -> None:
        self._until = 0.0


_absence = _Absence()
_FAILURES = (redis.RedisError, OSError, TimeoutError)


def forget_absence() -> None:
    """Ask again at once (for tests, which end and start servers)."""
    _absence.forget()


@cache
def _client(url: str, patience: float) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_timeout=patience,
        socket_connect_timeout=patience,
        retry=None,
        max_connections=200,
    )


def ask_now(question: Question) -> Any:
    """The script's answer, from a thread. Raises ``ValkeyAway``."""
    _absence.check()
    client = _client(settings.REDIS_URL, settings.VALKEY_PATIENCE_SECONDS)
    try:
        try:
            return client.evalsha(question.script.sha, *question.words)
        except NoScriptError:
            return client.eval(question.script.text, *question.words)
    except _FAILURES as error:
        raise _absence.begin(error) from error


class _Line:
    """One connection for all callers of an event loop: who asks meanwhile goes along in the next
    pipeline."""

    def __init__(self) -> None:
        self._client = redis.asyncio.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=settings.VALKEY_PATIENCE_SECONDS,
            socket_connect_timeout=settings.VALKEY_PATIENCE_SECONDS,
            retry=None,
            max_connections=1,
        )
        self._waiting: list[tuple[Question, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Question) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        while self._waiting:
            batch = self._waiting[:MOST_AT_ONCE]
            del self._waiting[:MOST_AT_ONCE]
            try:
                async with asyncio.timeout(settings.VALKEY_PATIENCE_SECONDS):
                    answers = await self._send([question for question, _ in batch])
            except _FAILURES as error:
                answers = [_absence.begin(error)] * len(batch)
            for (_, future), answer in zip(batch, answers, strict=True):
                if future.done():  # whoever asked was cancelled
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _send(self, questions: list[Question]) -> list[Any]:
        answers = await self._pipeline(questions, by_text=False)
        unknown = [i for i, a in enumerate(answers) if isinstance(a, NoScriptError)]
        if unknown:
            again = await self._pipeline([questions[i] for i in unknown], by_text=True)
            for i, answer in zip(unknown, again, strict=True):
                answers[i] = answer
        for answer in answers:
            if isinstance(answer, redis.RedisError):
                raise answer
        return answers

    async def _pipeline(self, questions: list[Question], *, by_text: bool) -> list[Any]:
        pipeline = self._client.pipeline(transaction=False)
        for question in questions:
            name, script = (
                ("EVAL", question.script.text) if by_text else ("EVALSHA", question.script.sha)
            )
            pipeline.execute_command(name, script, *question.words)
        answers: list[Any] = await pipeline.execute(raise_on_error=False)
        return answers


_lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()


async def ask(question: Question) -> Any:
    """The script's answer, in an event loop. Raises ``ValkeyAway``."""
    _absence.check()
    loop = asyncio.get_running_loop()
    if loop not in _lines:
        _lines[loop] = _Line()
    return await _lines[loop].ask(question)

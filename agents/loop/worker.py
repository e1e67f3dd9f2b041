"""The part of a worker process that hosts its runs: one event loop, one thread.

Celery's threads only hand a run over and wait. The loop renews all leases in one statement,
learns there of stops and losses, and gives the leases back when the process is to end.
"""

import asyncio
import logging
import os
import socket
import threading
from concurrent.futures import CancelledError, Future
from typing import Any
from uuid import UUID, uuid4

import uvloop
from django.conf import settings
from django.db import Error

from agents import checkpoints, leases
from agents.control import Listener
from agents.database import in_db
from agents.llm.gateway import Gateway, ModelUnavailable
from agents.llm.turns import ModelRequest, ModelTurn
from agents.loop.runner import Interruption, Runner
from agents.stream import Publisher
from boxoffice.common import crash
from boxoffice.tenancy.scope import operator_scope, tenant_scope

logger = logging.getLogger(__name__)

# All tries of the gateway together; who asks outside a run has no wall clock of its own.
MAX_ASK_SECONDS = 240.0
# How often a worker that is to end looks whether the claims on their way are in.
DRAIN_LOOK_SECONDS = 0.01
# The exit code of a process whose grace was over.
ENDED_BY_FORCE = 75


class WorkerRuntime:
    """Hosts the live runs of this process."""

    def __init__(self, *, slots: int | None = None) -> None:
        """``slots``: how many runs the process has room for (``None``: nobody counts)."""
        self._slots = slots
        self._busy = 0
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._live: dict[UUID, Runner] = {}
        self._asking: set[asyncio.Task[Any]] = set()
        self.is_draining = False
        self._loop = uvloop.new_event_loop()
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="agents-loop", daemon=True)
        self._thread.start()
        self._is_ready.wait()

    def submit(self, *, run_id: UUID | None = None) -> Future[None]:
        """Work on the run whose turn it is, and on the next, until there is none to begin.

        ``run_id``: on this run alone. The future ends when this worker is through.
        """
        if self.is_draining:
            over: Future[None] = Future()
            over.set_result(None)
            return over
        return asyncio.run_coroutine_threadsafe(self._advance(run_id), self._loop)

    def ask(self, request: ModelRequest) -> ModelTurn:
        """One call of a model outside any run; waits for it in the caller's thread.

        Raises ``ModelUnavailable`` also when the process is about to end, ``ModelRefused``.
        """
        if self.is_draining:
            raise ModelUnavailable("The worker is ending.")
        asked: Future[ModelTurn] = asyncio.run_coroutine_threadsafe(self._ask(request), self._loop)
        try:
            return asked.result(MAX_ASK_SECONDS)
        except (CancelledError, TimeoutError):
            asked.cancel()
            raise ModelUnavailable("The model has not answered in time.") from None

    async def _ask(self, request: ModelRequest) -> ModelTurn:
        task = asyncio.current_task()
        if self.is_draining or task is None:
            raise asyncio.CancelledError
        self._asking.add(task)
        try:
            return await self._gateway.stream(
                request, on_text=lambda text: None, on_restart=lambda: None
            )
        finally:
            self._asking.discard(task)

    def drain(self, timeout: float = 20.0) -> None:
        """Take nothing more, give all leases back at the next step boundary, and stop.

        Whatever cannot be given back within ``timeout`` seconds runs out by itself.
        """
        self.is_draining = True
        try:
            asyncio.run_coroutine_threadsafe(self._drain(), self._loop).result(timeout)
        except TimeoutError:
            logger.warning("%d leases were not given back in time", len(self._live))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._open())
        self._is_ready.set()
        self._loop.run_forever()

    async def _open(self) -> None:
        self._gateway = Gateway()
        self._publisher = Publisher()
        self._heart = asyncio.create_task(self._beat_forever())
        self._listener = Listener(owner=self.owner, on_word=self._look_at)

    async def _advance(self, run_id: UUID | None) -> None:
        self._busy += 1
        try:
            while not self.is_draining and await self._work_on_next(run_id):
                if run_id is not None:
                    break
        finally:
            self._busy -= 1

    @property
    def _is_scarce(self) -> bool:
        """Whether only the slots are left that are kept for tenants with no run at work."""
        if self._slots is None:
            return False
        return self._busy > self._slots - max(1, self._slots // 10)

    async def _work_on_next(self, run_id: UUID | None) -> bool:
        """Whether there was a run to begin."""
        with operator_scope("whose turn it is"):
            lease = await in_db(
                leases.run_claim, owner=self.owner, run_id=run_id, is_scarce=self._is_scarce
            )
        if lease is None:
            return False
        with tenant_scope(lease.tenant_id):
            if self.is_draining:  # while the claim was on its way
                await in_db(checkpoints.run_release, lease=lease)
                return False
            if lease.run_id in self._live:  # taken back from ourselves: its lease had run out
                self._live[lease.run_id].lost()
            runner = Runner(lease=lease, gateway=self._gateway, publisher=self._publisher)
            self._live[lease.run_id] = runner
            try:
                with crash.about(lease.conversation_id):
                    await runner.run()
            except Error:
                # The lease runs out and the sweep queues the run: that is the pause before the
                # next try.
                logger.exception("run %s: the database failed", lease.run_id)
            finally:
                if self._live.get(lease.run_id) is runner:
                    del self._live[lease.run_id]
        return True

    async def _beat_forever(self) -> None:
        while True:
            await asyncio.sleep(settings.HEARTBEAT_SECONDS)
            if not self._live:
                continue
            try:
                with operator_scope("leases of this worker"):
                    await self._beat(dict(self._live))
            except (Error, OSError) as error:
                logger.warning("heartbeat: %s", type(error).__name__)

    async def _look_at(self, run_id: UUID) -> None:
        """A word came about a run: what the database says of it counts, not the word."""
        runner = self._live.get(run_id)
        if runner is None:
            return
        try:
            with operator_scope("a lease of this worker"):
                await self._beat({run_id: runner})
        except (Error, OSError) as error:
            logger.warning("run %s was not looked at: %s", run_id, type(error).__name__)

    async def _beat(self, asked: dict[UUID, Runner]) -> None:
        beats = await in_db(leases.heartbeat, owner=self.owner, run_ids=list(asked))
        held = {beat.run_id: beat for beat in beats}
        for run_id, runner in asked.items():
            if self._live.get(run_id) is not runner:
                continue  # it has ended meanwhile
            beat = held.get(run_id)
            if beat is None or beat.epoch != runner.lease.epoch:
                runner.lost()
            elif beat.is_cancelled:
                runner.interrupt(Interruption.STOPPED)

    async def _drain(self) -> None:
        for asking in self._asking:
            asking.cancel()
        # A claim on its way is waited for: what it brings is given back.
        while self._live or self._busy or self._asking:
            runners = list(self._live.values())
            for runner in runners:
                runner.interrupt(Interruption.DRAINED)
            tasks = [runner.task for runner in runners if runner.task is not None]
            if tasks:
                await asyncio.wait(tasks)
            else:
                await asyncio.sleep(DRAIN_LOOK_SECONDS)
        self._heart.cancel()
        await self._listener.close()
        await self._publisher.close()
        await self._gateway.close()


_runtime: WorkerRuntime | None = None
_lock = threading.Lock()


_slots: int | None = None
_is_ending = False


def set_slots(slots: int) -> None:
    """How many runs this process has room for; to be said before its first run."""
    global _slots
    _slots = slots


def runtime() -> WorkerRuntime:
    """The process's one runtime, made at its first use."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = WorkerRuntime(slots=_slots)
        return _runtime


def shut_down() -> None:
    """Drain the process's runtime, if there is one; the process ends within its grace.

    Called from a signal handler, which a second signal interrupts: that one must not wait for the
    first, so there is no lock here.
    """
    global _is_ending
    if _is_ending:
        return
    _is_ending = True
    watch = threading.Timer(settings.SHUTDOWN_GRACE_SECONDS, _end_by_force)
    watch.daemon = True
    watch.start()
    live = _runtime
    if live is not None and not live.is_draining:
        live.drain(settings.SHUTDOWN_GRACE_SECONDS)


def _end_by_force() -> None:
    """Something does not end (a query behind a lock, a mail server): its lease runs out instead.

    Not even the interpreter's own end is waited for, as that waits for such threads.
    """
    logger.error("not through after %s s: ending as it is", settings.SHUTDOWN_GRACE_SECONDS)
    logging.shutdown()
    os._exit(ENDED_BY_FORCE)

"""One run under one lease, from its claim to its end, its wait, or the loss of its lease."""

import asyncio
import logging
from enum import StrEnum

from agents import checkpoints
from agents.database import in_db, uncut
from agents.leases import Lease, LeaseLost, StopRequested
from agents.llm.gateway import Gateway
from agents.llm.turns import ModelTurn
from agents.loop.events import run_finished, run_started, text_delta
from agents.loop.nodes import Node, first_node, joined, sentence
from agents.loop.state import RunState, state_load
from agents.models import RunState as State
from agents.selectors import language_of
from agents.stream import Publisher, RunChannel
from boxoffice.common import crash
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.types import JsonObject

logger = logging.getLogger(__name__)


# A run that was claimed this often and never came to its end does not get there.
MAX_CLAIMS = 25


class Interruption(StrEnum):
    """Why a run's coroutine was cancelled."""

    STOPPED = "stopped"
    LOST = "lost"
    DRAINED = "drained"


class Runner:
    """Drives the nodes of one run. ``interrupt`` may be called from the same event loop."""

    def __init__(self, *, lease: Lease, gateway: Gateway, publisher: Publisher) -> None:
        self.lease = lease
        self.gateway = gateway
        self.state: RunState
        self._publisher = publisher
        self._channel: RunChannel = publisher.open(
            run_id=lease.run_id, epoch=lease.epoch, floor=lease.event_seq
        )
        self.task: asyncio.Task[None] | None = None
        self._interruption: Interruption | None = None

    def interrupt(self, why: Interruption) -> None:
        """End the coroutine at its next await."""
        if self._interruption is None and self.task is not None:
            self._interruption = why
            self.task.cancel()

    def lost(self) -> None:
        """The lease is another's: stop, and commit nothing more."""
        self.interrupt(Interruption.LOST)

    async def run(self) -> None:
        """Work until there is nothing to do; whatever happens, the run is left recoverable."""
        self.task = asyncio.current_task()
        try:
            await self._work()
        except LeaseLost:
            logger.info("run %s was taken over", self.lease.run_id)
        except StopRequested:
            await self._stopped()
        except asyncio.CancelledError:
            if self._interruption is None or self.task is None:
                raise
            self.task.uncancel()
            await self._interrupted(self._interruption)

    def emit(self, event: JsonObject) -> None:
        """Send an event on its way to the pages."""
        self._publisher.send(self._channel, event)

    def say(self, text: str) -> None:
        """Text of the model, as it comes."""
        crash.point("speaking")
        self.state.text += text
        self.emit(text_delta(text))

    def take_back(self) -> None:
        """The model call begins anew: its text so far is void."""
        self.state.text = ""
        self.emit(run_started(epoch=self.lease.epoch, is_resumed=True))

    async def end(
        self,
        state: State,
        *,
        answer: str,
        partial_text: str = "",
        error: JsonObject | None = None,
        handoff: str = "",
        last: ModelTurn | None = None,
    ) -> None:
        """End the run otherwise than by its answer, and tell the page."""

        async def ended() -> None:
            await in_db(
                checkpoints.run_end,
                lease=self.lease,
                state=state,
                answer=answer,
                partial_text=partial_text,
                error=error,
                handoff=handoff,
                last=None if last is None else self._last(last),
            )
            self.emit(run_finished(state, answer, is_handoff=bool(handoff)))

        # Between the commit and the word to the page the heartbeat may find the run held no more.
        await uncut(ended())

    def _last(self, turn: ModelTurn) -> checkpoints.LastTurn:
        state = self.state
        return checkpoints.LastTurn(caller=state.caller, model=state.model, turn=turn)

    async def _work(self) -> None:
        if self.lease.epoch > MAX_CLAIMS:
            await self._give_up()
            return
        self.state = await in_db(state_load, lease=self.lease)
        self.emit(run_started(epoch=self.lease.epoch, is_resumed=self.lease.epoch > 1))
        try:
            async with asyncio.timeout(self.state.wall_seconds_left):
                await self._loop()
        except TimeoutError:
            text = self.state.text.strip()
            passed_on = sentence(self.state.caller.language, "handoff")
            await self.end(
                State.PARTIAL,
                answer=self.state.answer(joined(text, passed_on)),
                partial_text=text,
                handoff="budget_time",
            )
        except BoxOfficeError as error:
            logger.warning("run %s failed: %s", self.lease.run_id, error.code)
            await self._failed(error.as_data()["error"])

    async def _loop(self) -> None:
        node: Node | None = first_node(self)
        while node is not None:
            node = await node.run(self)
            self.lease.event_seq = self._channel.last_seq

    async def _failed(self, error: JsonObject) -> None:
        answer = self.state.answer(sentence(self.state.caller.language, "failed"))
        await self.end(State.FAILED, answer=answer, error=error)

    async def _give_up(self) -> None:
        """End it without a look at its state: that may be what its workers have died of."""
        logger.error("run %s is given up after %d claims", self.lease.run_id, MAX_CLAIMS)
        language = await in_db(language_of, conversation_id=self.lease.conversation_id)
        await self.end(
            State.FAILED,
            answer=sentence(language, "handoff"),
            error={"code": "gave_up", "message": "Too many attempts.", "retryable": False},
            handoff="gave_up",
        )

    async def _interrupted(self, why: Interruption) -> None:
        try:
            if why is Interruption.STOPPED:
                await self._stopped()
            elif why is Interruption.DRAINED:
                await in_db(checkpoints.run_release, lease=self.lease)
        except LeaseLost:
            logger.info("run %s was taken over", self.lease.run_id)

    async def _stopped(self) -> None:
        """The fan stopped the run: what was said so far is kept."""
        # No second interruption: what ends the run is not to be cut short.
        self._interruption = Interruption.STOPPED
        state: RunState | None = getattr(self, "state", None)  # not while it is being loaded
        text = "" if state is None else state.text.strip()
        answer = "" if state is None else state.answer(text)
        try:
            await self.end(State.CANCELLED, answer=answer, partial_text=text)
        except LeaseLost:
            logger.info("run %s was taken over", self.lease.run_id)

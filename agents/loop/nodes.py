"""The loop: call the model, run what it asks for, wait for humans, end.

Each node does one thing, commits it, and names the next; its return annotation says which can
follow. After a crash ``first_node`` finds the place from what was committed.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import override

from agents import checkpoints, leases
from agents.context.history import call_data
from agents.context.prompt import system_prompt
from agents.context.request import Sent, request_build
from agents.database import in_db, uncut
from agents.llm.turns import ModelRequest, ModelTurn
from agents.loop.events import (
    approval_requested,
    run_finished,
    step_committed,
    tool_proposed,
    tool_result,
)
from agents.loop.progress import NOTHING_NEW
from agents.loop.remote import finished
from agents.loop.tries import carried_out
from agents.models import RunState as State
from boxoffice.common.clock import now
from boxoffice.common.types import JsonObject
from tools import dispatch
from tools.admission import Admission
from tools.models import CallState, ToolCall
from tools.permissions import offered_tools

if TYPE_CHECKING:
    from agents.loop.runner import Runner
    from agents.loop.state import RunState
    from tools.spec import ToolSpec

MAX_CALLS_PER_TURN = 16
MAX_SAME_FAILURES = 2


type Node = CallModel | RunTools | Wait | Stop


def first_node(runner: Runner) -> Node:
    """Where a run that was just claimed goes on."""
    return RunTools() if runner.state.open_calls else CallModel()


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model; commit what it says, or what it asks for."""

    async def run(self, runner: Runner) -> CallModel | RunTools | Stop | None:
        """Commit one model step."""
        state = runner.state
        exhausted = _exhausted(runner)
        if exhausted:
            return Stop(handoff=exhausted)
        state.text = ""
        request, sent = self._request(runner)
        turn = await runner.gateway.stream(request, on_text=runner.say, on_restart=runner.take_back)
        if turn.calls and not state.is_last_step:
            return await self._ask(runner, turn, sent)
        if turn.calls or turn.stop_reason == "max_tokens":
            return Stop(handoff="budget_steps" if turn.calls else "budget_tokens", turn=turn)
        # What is committed is told to the page, even if the heartbeat finds the run over first.
        return await uncut(self._answer(runner, turn, sent))

    def _request(self, runner: Runner) -> tuple[ModelRequest, Sent]:
        state = runner.state
        return request_build(
            model=state.model,
            system=system_prompt(state.setting, now()),
            tools=[] if state.is_last_step else self._offered(state),
            history=state.history,
            max_tokens=max(1, state.max_output_tokens - state.output_tokens),
            as_of=state.as_of,
        )

    def _offered(self, state: RunState) -> list[ToolSpec]:
        """What reads on in a result is offered once there is one: until then it is only text."""
        return offered_tools(state.grant, with_core=state.history.has_cut_results)

    async def _ask(self, runner: Runner, turn: ModelTurn, sent: Sent) -> RunTools:
        state = runner.state
        calls, cost_micros = await in_db(
            checkpoints.model_commit,
            lease=state.lease,
            caller=state.caller,
            model=state.model,
            turn=turn,
            sent=sent,
        )
        _count(runner, turn)
        state.cost_micros_left -= cost_micros
        state.history.assistant(turn.blocks)
        state.text = ""  # it stands in the step from now on
        state.open_calls = [call.pk for call in calls]
        runner.emit(step_committed(state.lease.seq, "model"))
        for call in calls:
            runner.emit(tool_proposed(call))
        return RunTools(proposed=tuple(calls))

    async def _answer(self, runner: Runner, turn: ModelTurn, sent: Sent) -> CallModel | None:
        state = runner.state
        text = turn.text.strip() or sentence(runner.state.caller.language, "empty")
        answer = state.answer(text)
        taken, state.grant = await in_db(
            checkpoints.answer_commit,
            lease=state.lease,
            caller=state.caller,
            model=state.model,
            turn=turn,
            sent=sent,
            answer=answer,
            is_last_step=state.is_last_step,
        )
        _count(runner, turn)
        runner.emit(step_committed(state.lease.seq, "model"))
        if not taken:
            runner.emit(run_finished(State.SUCCEEDED, answer, is_handoff=state.is_handed_off))
            return None
        state.said.append(turn.text.strip())
        state.history.assistant(turn.blocks)
        for message in taken:
            state.history.user_text(message["text"])
        return CallModel()


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run the calls of the newest turn: reads side by side, writes one after another.

    ``proposed`` are those calls as they were just written; else they are read.
    """

    proposed: tuple[ToolCall, ...] = ()

    async def run(self, runner: Runner) -> CallModel | Wait | Stop:
        """Commit each call, then all results as one step."""
        state = runner.state
        rows = list(self.proposed) or await in_db(_open_calls, state.open_calls)
        stuck = any(state.failures[c.tool, c.args_hash] > MAX_SAME_FAILURES for c in rows)
        if stuck and all(c.state == CallState.PROPOSED for c in rows):
            return Stop(handoff="same_failure")
        if state.progress.is_stuck(rows) and all(c.state == CallState.PROPOSED for c in rows):
            return Stop(handoff="no_progress")
        if len(rows) == 1 and self._is_plain_read(runner, rows[0]):
            return await self._read(runner, rows[0])
        reports = await self._dispatch(runner, rows)
        asks = [r.call.pk for r in reports if r.outcome is not dispatch.Outcome.DONE]
        if asks:
            return Wait(tuple(asks))
        return await self._results(runner, [report.call for report in reports])

    def _is_plain_read(self, runner: Runner, call: ToolCall) -> bool:
        return (
            dispatch.is_read(call.tool)
            and call.state == CallState.PROPOSED
            and self._refusal(runner, 0, call) is None
        )

    async def _read(self, runner: Runner, call: ToolCall) -> CallModel | Wait:
        """The most common turn, one read: it commits together with its results step."""
        state = runner.state
        taken: list[JsonObject] = []

        async def commit(admission: Admission) -> dispatch.CallReport:
            nonlocal taken
            report, taken, state.grant = await in_db(
                checkpoints.read_commit,
                lease=state.lease,
                caller=state.caller,
                call_id=call.pk,
                admission=admission,
            )
            return report

        report = await carried_out(call, state.grant, commit)
        if report.outcome is not dispatch.Outcome.DONE:
            return Wait((call.pk,))
        state.take_note(report.call)
        self._tell(runner, report.call)
        return self._go_on(runner, [report.call], taken)

    async def _dispatch(self, runner: Runner, rows: list[ToolCall]) -> list[dispatch.CallReport]:
        reads = {c.pk for c in rows if dispatch.is_read(c.tool)}
        done: dict[UUID, dispatch.CallReport] = {}

        async def one(index: int, call: ToolCall) -> None:
            done[call.pk] = await self._one(runner, index, call)

        ended = await asyncio.gather(
            *(one(i, call) for i, call in enumerate(rows) if call.pk in reads),
            return_exceptions=True,
        )
        for error in ended:
            if error is not None:
                raise error
        for index, call in enumerate(rows):
            if call.pk not in reads:
                await one(index, call)
        return [done[call.pk] for call in rows]

    async def _one(self, runner: Runner, index: int, call: ToolCall) -> dispatch.CallReport:
        state = runner.state
        is_read = dispatch.is_read(call.tool)
        fence = partial(leases.fence_read if is_read else leases.fence, state.lease)
        refusal = self._refusal(runner, index, call)
        if refusal is not None and call.state == CallState.PROPOSED:
            code, message, hint = refusal
            report = await in_db(
                dispatch.call_refuse,
                call_id=call.pk,
                code=code,
                message=message,
                hint=hint,
                fence=fence,
            )
        else:
            report = await carried_out(call, state.grant, partial(self._run, runner, call, fence))
        if report.outcome is dispatch.Outcome.DONE:
            state.take_note(report.call)
            self._tell(runner, report.call)
        return report

    async def _run(
        self, runner: Runner, call: ToolCall, fence: dispatch.Fence, admission: Admission
    ) -> dispatch.CallReport:
        caller = runner.state.caller
        report = await in_db(
            dispatch.call_run, call_id=call.pk, caller=caller, fence=fence, admission=admission
        )
        if report.sending is not None:
            return await finished(report.sending, caller, admission.circuit)
        return report

    def _tell(self, runner: Runner, call: ToolCall) -> None:
        """Tell the page, once by each worker: it knows a call by its id."""
        if call.pk not in runner.state.told:
            runner.state.told.add(call.pk)
            runner.emit(tool_result(call))

    def _refusal(self, runner: Runner, index: int, call: ToolCall) -> tuple[str, str, str] | None:
        if index >= MAX_CALLS_PER_TURN:
            return (
                "too_many_calls",
                f"At most {MAX_CALLS_PER_TURN} calls in one turn.",
                "Ask for fewer things at once.",
            )
        if runner.state.failures[call.tool, call.args_hash] >= MAX_SAME_FAILURES:
            return (
                "repeated_failure",
                "This call with these arguments has failed twice already; it was not tried again.",
                "Do something else, or tell the fan what is not possible.",
            )
        if runner.state.progress.is_idle(call):
            return (
                NOTHING_NEW,
                "You have made this call before, and the last steps have brought nothing new; "
                "it was not run again. What it gave stands further up.",
                "Answer with what you know, do something else, or tell the fan what is missing.",
            )
        return None

    async def _results(self, runner: Runner, calls: list[ToolCall]) -> CallModel:
        state = runner.state
        handoff = "outcome_unknown" if any(c.state == CallState.UNKNOWN for c in calls) else ""
        taken, state.grant = await in_db(
            checkpoints.results_commit,
            lease=state.lease,
            caller=state.caller,
            call_ids=[call.pk for call in calls],
            remote=[(call.pk, call.state) for call in calls if dispatch.is_remote(call.tool)],
            handoff=handoff,
        )
        state.is_handed_off = state.is_handed_off or bool(handoff)
        return self._go_on(runner, calls, taken)

    def _go_on(self, runner: Runner, calls: list[ToolCall], taken: list[JsonObject]) -> CallModel:
        state = runner.state
        state.count(calls)
        state.history.results((call.call_id, call, call_data(call)) for call in calls)
        state.open_calls = []
        runner.emit(step_committed(state.lease.seq, "results"))
        for message in taken:
            state.history.user_text(message["text"])
        return CallModel()


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask the humans; the run waits without a worker."""

    call_ids: tuple[UUID, ...]

    async def run(self, runner: Runner) -> RunTools | None:
        """Commit the requests and the waiting together; go on if there is nobody to wait for."""
        # What humans are asked is told to the page, even if the run has been left by then.
        return await uncut(self._ask_humans(runner))

    async def _ask_humans(self, runner: Runner) -> RunTools | None:
        state = runner.state
        gated = await in_db(
            checkpoints.run_wait, lease=state.lease, caller=state.caller, call_ids=self.call_ids
        )
        if not gated:
            return RunTools()
        for call in gated:
            runner.emit(approval_requested(call))
        return None


@dataclass(frozen=True, slots=True)
class Stop:
    """A budget, or the loop's own judgement, ends the run: a person goes on."""

    handoff: str
    turn: ModelTurn | None = field(default=None)

    async def run(self, runner: Runner) -> None:
        """Commit the partial answer and the handoff."""
        text = self.turn.text.strip() if self.turn else ""
        passed_on = sentence(runner.state.caller.language, "handoff")
        await runner.end(
            State.PARTIAL,
            answer=runner.state.answer(joined(text, passed_on)),
            partial_text=text,
            handoff=self.handoff,
            last=self.turn,
        )


def _open_calls(call_ids: list[UUID]) -> list[ToolCall]:
    rows = {call.pk: call for call in ToolCall.objects.filter(pk__in=call_ids)}
    return [rows[call_id] for call_id in call_ids]


def _exhausted(runner: Runner) -> str:
    state = runner.state
    if state.steps_used >= state.max_steps:
        return "budget_steps"
    if state.output_tokens >= state.max_output_tokens:
        return "budget_tokens"
    if state.cost_micros_left <= 0:
        return "budget_cost"
    return ""


def _count(runner: Runner, turn: ModelTurn) -> None:
    state = runner.state
    state.steps_used += 1
    state.output_tokens += turn.usage.output_tokens


def joined(*parts: str) -> str:
    """Paragraphs, the empty ones left out."""
    return "\n\n".join(part for part in parts if part)


def sentence(language: str, what: str) -> str:
    """A sentence for the fan, in the conversation's language."""
    with override(language):
        texts = {
            "empty": _("Sorry, I have no answer to that. Could you say it another way?"),
            "handoff": _(
                "I could not finish this by myself, so I have passed our conversation on to a "
                "person of the box office, who will answer you right here."
            ),
            "failed": _("Sorry, I cannot answer just now. Please try again in a moment."),
        }
        return texts[what]

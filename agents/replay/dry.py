"""Walking through a recorded run without a model: no effect, nothing written, today's verdicts."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils.translation import gettext as _

from agents.context.history import call_data, result_block
from agents.models import Run, Step, StepKind
from agents.replay.changes import (
    Change,
    Today,
    call_changes,
    distinct,
    prompt_changes,
    today_of,
    verdict_today,
)
from agents.replay.record import Asked, Record, over_check, record_load
from approvals.models import ApprovalRequest
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.readonly import reads_only
from tools.effects import outcome_data
from tools.models import ToolCall

# A report is read by a person; a longer run is read in parts.
MAX_STEPS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A verdict: of then, or of today."""

    effect: str
    code: str
    policy_version: str
    tool_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReplay:
    """A recorded call. ``outcome`` is what the model was given for it."""

    id: UUID
    tool: str
    arguments: Any
    edited_arguments: Any
    state: str
    recorded: Judged
    today: Judged
    approval: JsonObject | None
    outcome: JsonObject
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestReplay:
    """A request as it was sent. ``messages`` are those that the steps before have not shown.

    ``after_blocks`` counts the blocks before them, ``prompt`` names an entry of the report's
    ``prompts``. A model that is offered no tools gets tool blocks as text: ``is_flattened``, and
    then all messages are here.
    """

    prompt: str
    rest: list[JsonObject]
    max_tokens: int | None
    is_exact: bool | None
    is_flattened: bool
    after_blocks: int
    messages: list[JsonObject]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReplay:
    """One step; what it has depends on its ``kind``."""

    seq: int
    kind: str
    at: datetime
    is_copied: bool
    changes: tuple[Change, ...] = ()
    said: list[JsonObject] = field(default_factory=list)
    request: RequestReplay | None = None
    turn: JsonObject | None = None
    calls: tuple[CallReplay, ...] = ()
    results: list[JsonObject] = field(default_factory=list)
    end: JsonObject | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A walk from ``from_step``; ``next_step`` is where to go on when it was too long for one."""

    run: UUID
    conversation: UUID
    state: str
    from_step: int
    last_step: int
    next_step: int | None
    tier_then: str
    tier_today: str
    changes: tuple[Change, ...]
    prompts: dict[str, JsonObject]
    steps: tuple[StepReplay, ...]

    def as_data(self) -> JsonObject:
        """For JSON."""
        return asdict(self)


def replay_dry(*, run: Run, from_step: int) -> Report:
    """Walk a run that is over from one of its steps on, in the tenant's scope.

    The database refuses any write meanwhile. Raises ``RunNotOver``, and ``InvalidInput`` for a
    step that the run does not have.
    """
    with reads_only():
        over_check(run)
        record = record_load(run)
        record.step(from_step)
        today = today_of(run.conversation, user_id=run.conversation.user_id)
        report = _Walk(record, today).report(from_step)
    return report


@dataclass(slots=True)
class _Walk:
    record: Record
    today: Today
    shown: int = 0
    last: Asked | None = None
    prompts: dict[str, JsonObject] = field(default_factory=dict)

    def report(self, from_step: int) -> Report:
        """The steps from there on, as far as one report goes."""
        run = self.record.run
        steps = list(self._steps(from_step))
        last = self.record.steps[-1].seq
        seq = steps[-1].seq
        return Report(
            run=run.pk,
            conversation=run.conversation_id,
            state=run.state,
            from_step=from_step,
            last_step=last,
            next_step=seq + 1 if seq < last else None,
            tier_then=run.tier,
            tier_today=self.today.tier,
            changes=tuple(distinct(change for step in steps for change in step.changes)),
            prompts=self.prompts,
            steps=tuple(steps),
        )

    def _steps(self, from_step: int) -> Iterator[StepReplay]:
        for step, asked in self.record.walk():
            if step.seq >= from_step + MAX_STEPS:
                return
            if step.seq >= from_step:
                yield self._step(step, asked)

    def _step(self, step: Step, asked: Asked | None) -> StepReplay:
        content: JsonObject = step.content
        calls = tuple(self._call(call) for call in self.record.calls_of(step))
        changes = [change for call in calls for change in call.changes]
        if asked is not None:
            changes = [*self._asked_changes(asked), *changes]
        is_model = step.kind == StepKind.MODEL
        return StepReplay(
            seq=step.seq,
            kind=step.kind,
            at=step.created_at,
            is_copied=bool(content.get("copied")),
            changes=tuple(distinct(changes)),
            said=content["messages"] if step.kind == StepKind.INPUT else [],
            request=self._request(asked) if asked is not None else None,
            turn={key: content.get(key) for key in ("blocks", "stop_reason")} if is_model else None,
            calls=calls,
            results=self._results(step),
            end=content if step.kind == StepKind.FINAL else None,
        )

    def _asked_changes(self, asked: Asked) -> list[Change]:
        changes = prompt_changes(asked.prompt, self.today, model=self.record.run.model)
        if asked.is_exact is False:
            message = _(
                "What was said before could not be put together exactly as it was sent: "
                "something that was open then has been settled since."
            )
            changes.append(Change(code="messages_differ", message=message))
        return changes

    def _request(self, asked: Asked) -> RequestReplay:
        prompt = asked.prompt
        if prompt is not None and prompt.digest not in self.prompts:
            self.prompts[prompt.digest] = {
                "model": prompt.model,
                "system": prompt.system,
                "tools": prompt.tools,
            }
        last = self.last
        goes_on = last is not None and (last.as_of, last.is_flattened) == (
            asked.as_of,
            asked.is_flattened,
        )
        after = self.shown if goes_on else 0
        self.shown, self.last = asked.blocks, asked
        return RequestReplay(
            prompt=asked.digest,
            rest=asked.rest,
            max_tokens=asked.max_tokens,
            is_exact=asked.is_exact,
            is_flattened=asked.is_flattened,
            after_blocks=after,
            messages=_after(asked.messages, after),
        )

    def _call(self, call: ToolCall) -> CallReplay:
        verdict = verdict_today(call, self.today)
        request = call.approval
        return CallReplay(
            id=call.pk,
            tool=call.tool,
            arguments=call.arguments,
            edited_arguments=None if request is None else request.edited_arguments,
            state=call.state,
            recorded=Judged(
                effect=call.verdict,
                code=call.reason_code,
                policy_version=call.policy_version,
                tool_version=call.tool_version,
            ),
            today=Judged(
                effect=verdict.effect,
                code=verdict.code,
                policy_version=verdict.policy_version,
                tool_version=verdict.spec.version if verdict.spec else "",
            ),
            approval=None if request is None else _approval(request),
            outcome=outcome_data(call),
            changes=tuple(call_changes(call, verdict, self.today, tier=self.record.run.tier)),
        )

    def _results(self, step: Step) -> list[JsonObject]:
        if step.kind != StepKind.RESULTS:
            return []
        copied: list[JsonObject] | None = step.content.get("blocks")
        if copied is not None:
            return copied
        calls = self.record.calls
        mine = [calls[call_id] for call_id in step.content["calls"] if call_id in calls]
        return [result_block(call.call_id, call, call_data(call)) for call in mine]


def _approval(request: ApprovalRequest) -> JsonObject:
    decisions = list(request.decisions.all())
    return {
        "id": request.pk,
        "gate": request.gate,
        "state": request.effective_state,
        "edited": request.edited_arguments is not None,
        "note": decisions[-1].note if decisions else "",
    }


def _after(messages: list[JsonObject], blocks: int) -> list[JsonObject]:
    """The messages without their first blocks."""
    left = []
    for message in messages:
        content = message["content"]
        if blocks < len(content):
            left.append({"role": message["role"], "content": list(content[blocks:])})
        blocks = max(0, blocks - len(content))
    return left

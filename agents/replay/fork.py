"""A new run that begins with the steps of another one, and goes on for real.

It belongs to who forks: their conversation, their identity, tier and rights. What was done before
the fork point is told, not done; what comes after meets the guard, the gates and the four eyes as
if that person had asked for it.
"""

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils.translation import gettext as _

from agents import services, signals
from agents.context.history import call_data_later, result_block
from agents.models import Conversation, Message, Run, Speaker, Step, StepKind
from agents.replay.changes import (
    Change,
    Today,
    model_changes,
    prompt_changes,
    today_of,
    tool_changes,
)
from agents.replay.errors import NothingFollows, RecordIncomplete, ThingsChanged, UnsafeStep
from agents.replay.record import Asked, Record, over_run_get, record_load
from boxoffice.audit.services import record as audit
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Forbidden
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Membership, Tier
from boxoffice.tenancy.principals import Principal
from tools import registry
from tools.effects import Proposal, calls_propose
from tools.models import ToolCall
from tools.permissions import Caller

# Differences that lie in who forks: they have other rights than the fan, which is no change.
_BY_IDENTITY = frozenset({"tool_not_offered", "tool_added"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPlan:
    """What a fork would be.

    ``again`` are the calls that would be made anew at once, ``before`` is what was said before the
    run. ``changes`` must be accepted, ``notes`` need not.
    """

    run: Run
    from_step: int
    caller: Caller
    copied: tuple[Step, ...]
    again: tuple[ToolCall, ...]
    changes: tuple[Change, ...]
    notes: tuple[Change, ...]
    model: str
    before: list[JsonObject]
    record: Record

    def as_data(self) -> JsonObject:
        """For a report, before anything is done."""
        return {
            "run": str(self.run.pk),
            "from_step": self.from_step,
            "copied_steps": len(self.copied),
            "calls_again": [call.tool for call in self.again],
            "model": self.model,
            "changes": [change.as_data() for change in self.changes],
            "notes": [change.as_data() for change in self.notes],
        }


def fork_plan(*, principal: Principal, run_id: UUID, from_step: int) -> ForkPlan:
    """What forking a run at a step would do; nothing is done.

    Raises ``NotFound``, ``Forbidden``, ``RunNotOver``, ``InvalidInput`` (no such step),
    ``NothingFollows``, ``RecordIncomplete`` and ``UnsafeStep``.
    """
    run = over_run_get(principal=principal, run_id=run_id)
    if not _is_member(principal):
        raise Forbidden(
            _("A fork acts with its owner's own tier, and you are no member of this tenant.")
        )
    return _plan(run, principal, from_step)


def run_fork(
    *, principal: Principal, run_id: UUID, from_step: int, accept_changes: bool = False
) -> Run:
    """Fork a run at a step: a queued run in a new conversation of the principal.

    Raises as ``fork_plan`` does, and ``ThingsChanged`` unless the changes are accepted.
    """
    with transaction.atomic():
        plan = fork_plan(principal=principal, run_id=run_id, from_step=from_step)
        if plan.changes and not accept_changes:
            raise ThingsChanged(
                _("The run would go on under other conditions than those that it had."),
                changes=plan.changes,
                hint=_("Look at the changes, and accept them if you want it all the same."),
            )
        fork = _create(plan, principal)
        audit(
            action="agents.run.forked",
            actor=principal.key,
            target=str(fork.pk),
            details={
                "from": str(run_id),
                "from_step": from_step,
                "accepted": [change.code for change in plan.changes],
            },
        )
    return fork


def _is_member(principal: Principal) -> bool:
    members = Membership.objects.filter(user=principal.user_id, is_active=True)
    return not principal.is_anonymous and members.exists()


def _plan(run: Run, principal: Principal, from_step: int) -> ForkPlan:
    record = record_load(run)
    chosen = record.step(from_step)
    copied = [step for step in record.steps if step.seq < from_step]
    if chosen.kind == StepKind.INPUT:
        copied.append(chosen)  # what was asked is what the fork is to answer
    last = copied[-1]
    if last.kind == StepKind.MODEL and not last.content["calls"]:
        raise NothingFollows(
            _("At step %(step)d the answer had been given; nothing is left to do.")
            % {"step": from_step},
            hint=_("Fork at a step before it."),
        )
    today = today_of(run.conversation, user_id=principal.user_id)
    asked = _next_asked(record, from_step)
    changes, notes = _differences(run, asked, today)
    return ForkPlan(
        run=run,
        from_step=from_step,
        caller=today.caller,
        copied=tuple(copied),
        again=_open_calls(record, last),
        changes=changes,
        notes=notes,
        model=run.model if run.model in today.models else "",
        before=record.before(run.created_at if asked is None else asked.as_of).messages,
        record=record,
    )


def _differences(
    run: Run, asked: Asked | None, today: Today
) -> tuple[tuple[Change, ...], tuple[Change, ...]]:
    """What must be accepted, and what is only to be noted."""
    if asked is None:
        return tuple(model_changes(run.model, today)), ()
    found = prompt_changes(asked.prompt, today, model=run.model)
    if asked.is_exact is False:
        message = _("What was said before could not be put together exactly as it was sent.")
        found.append(Change(code="messages_differ", message=message))
    return (
        tuple(one for one in found if one.code not in _BY_IDENTITY),
        tuple(one for one in found if one.code in _BY_IDENTITY),
    )


def _next_asked(record: Record, from_step: int) -> Asked | None:
    """The request that the fork begins with, or the newest one before."""
    newest = None
    for step, asked in record.walk():
        if asked is not None:
            newest = asked
            if step.seq >= from_step:
                break
    return newest


def _open_calls(record: Record, last: Step) -> tuple[ToolCall, ...]:
    """The calls that the last copied step proposes, to be made anew.

    A write that was proposed under another version of its tool is not made: the model has to
    propose it again.
    """
    if last.kind != StepKind.MODEL:
        return ()
    calls = record.calls_of(last)
    if len(calls) < len(last.content["calls"]):
        raise RecordIncomplete(
            _("The calls of step %(step)d belong to another run.") % {"step": last.seq},
            hint=_("Fork at that step, so that the model proposes them anew."),
        )
    for call in calls:
        spec = registry.find(call.tool)
        changed = tool_changes(call.tool, call.tool_version)
        if changed and not (spec is not None and spec.is_read):
            raise UnsafeStep(
                changed[0].message,
                hint=_("Fork at step %(step)d, so that the model proposes it anew.")
                % {"step": last.seq},
            )
    return tuple(calls)


def _create(plan: ForkPlan, principal: Principal) -> Run:
    origin = plan.run
    conversation = Conversation.objects.create(
        user_id=principal.user_id,
        language=origin.conversation.language,
        title=_("Fork: %(title)s") % {"title": origin.conversation.title[:100]},
    )
    fork = services.run_draft(
        principal,
        conversation,
        Tier.objects.filter(pk=principal.tier_id).first(),
        model=plan.model,
        last_seq=plan.copied[-1].seq,
        forked_from=origin,
        forked_step=plan.from_step,
        is_tainted=origin.is_tainted,
        tainted_by=origin.tainted_by,
        handed_out_at=Now(),
    )
    fork.save()
    messages: list[Message] = []
    for step in plan.copied:
        content = _copied(plan, step)
        if step.kind == StepKind.INPUT:
            messages += [_said(fork, said) for said in content["messages"]]
        elif step is plan.copied[-1] and plan.again:
            content["calls"] = [str(call.pk) for call in _propose(plan, fork, step.seq)]
        Step.objects.create(run=fork, seq=step.seq, epoch=0, kind=step.kind, content=content)
    signals.message_announce(
        tenant_id=fork.tenant_id,
        conversation_id=conversation.pk,
        message_id=messages[-1].pk,
        run_id=fork.pk,
    )
    return fork


def _copied(plan: ForkPlan, step: Step) -> JsonObject:
    """What a step had, made whole: a fork reads nothing of the run that it comes from."""
    content: JsonObject = {**step.content, "copied": True}
    content.pop("request_id", None)
    content.pop("handoff", None)  # nobody looks at this conversation because of the other one
    if step.kind == StepKind.INPUT:
        content["messages"] = [{"text": said["text"]} for said in content["messages"]]
        if step.seq == 1:
            content["before"] = [*plan.before, *content.get("before", [])]
    elif step.kind == StepKind.RESULTS and "blocks" not in content:
        mine = [plan.record.calls[call_id] for call_id in content["calls"]]
        content["blocks"] = [
            result_block(call.call_id, call, call_data_later(call)) for call in mine
        ]
    return content


def _said(fork: Run, said: JsonObject) -> Message:
    """A copied message: nobody has written it in this conversation, so it names no author."""
    message: Message = Message.objects.create(
        conversation=fork.conversation,
        run=fork,
        speaker=Speaker.FAN,
        text=said["text"],
        taken_at=now(),
    )
    said["id"] = str(message.pk)
    return message


def _propose(plan: ForkPlan, fork: Run, seq: int) -> list[ToolCall]:
    """The open calls once more, as the forker's own, under keys of their own."""
    return calls_propose(
        caller=plan.caller,
        proposals=[
            Proposal(call_id=call.call_id, tool=call.tool, arguments=call.arguments)
            for call in plan.again
        ],
        origin=f"run:{fork.pk}:{seq}",
        run_id=fork.pk,
        conversation_id=fork.conversation_id,
        key_prefix=f"{fork.conversation_id}:{fork.pk}.{seq}",
    )

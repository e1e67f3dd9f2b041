"""A run as its worker holds it: loaded once at the claim, then only added to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from agents.context.history import History, add_human, add_run
from agents.context.prompt import Setting
from agents.leases import Lease
from agents.models import Conversation, Message, Run, Speaker, Step, StepKind
from agents.selectors import runs_of
from boxoffice.billing.selectors import spent_today_micros
from boxoffice.tenancy.models import Tenant, Tier
from tools.models import CallState, ToolCall
from tools.permissions import Caller

MAX_RUNS_OF_HISTORY = 30


@dataclass(slots=True, kw_only=True)
class RunState:
    """What the nodes work on.

    ``open_calls`` are the calls of the newest turn, whose results are not committed. ``failures``
    counts, by tool and arguments, the calls of this run that failed.
    """

    lease: Lease
    caller: Caller
    setting: Setting
    history: History
    model: str
    max_steps: int
    max_output_tokens: int
    wall_seconds_left: float
    steps_used: int
    output_tokens: int
    cost_micros_left: int
    open_calls: list[UUID] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    text: str = ""

    @property
    def is_last_step(self) -> bool:
        """Whether only one more model call is allowed, which then gets no tools."""
        return self.steps_used >= self.max_steps - 1

    def answer(self, text: str) -> str:
        """All that this run has said as an answer: more than one when the fan wrote meanwhile."""
        return "\n\n".join(part for part in [*self.said, text] if part)

    def count_failure(self, call: ToolCall) -> None:
        """Remember a call that did not succeed."""
        if call.state in (CallState.FAILED, CallState.DENIED):
            self.failures[call.tool, call.args_hash] += 1


def state_load(*, lease: Lease) -> RunState:
    """Read everything a run needs to go on; in the tenant's scope, a fixed number of queries."""
    run = Run.objects.select_related("conversation", "tenant").get(pk=lease.run_id)
    conversation: Conversation = run.conversation
    tenant: Tenant = run.tenant
    caller = Caller(
        tenant_id=run.tenant_id,
        user_id=conversation.user_id,
        time_zone=tenant.time_zone,
        language=conversation.language,
    )
    state = RunState(
        lease=lease,
        caller=caller,
        setting=Setting(
            tenant=tenant.name, language=conversation.language, time_zone=tenant.time_zone
        ),
        history=History(),
        model=run.model,
        max_steps=run.max_steps,
        max_output_tokens=run.max_output_tokens,
        wall_seconds_left=max(0.0, run.max_wall_seconds - run.worked_ms / 1000),
        steps_used=run.steps_used,
        output_tokens=run.output_tokens,
        cost_micros_left=_cost_left(run, conversation.user_id),
    )
    _load_history(state, run)
    return state


def _cost_left(run: Run, user_id: int | None) -> int:
    """What the run may still cost: the rest of its own budget, and of the fan's day."""
    tier = Tier.objects.get(slug=run.tier)
    of_day = tier.max_day_cost_micros - spent_today_micros(user_id=user_id)
    return min(run.max_cost_micros - run.cost_micros, of_day)


def _load_history(state: RunState, run: Run) -> None:
    """The runs of the conversation before this one, then this one, then what is open in it."""
    before = list(
        runs_of(run.conversation).filter(pk__lt=run.pk).order_by("-id")[:MAX_RUNS_OF_HISTORY]
    )
    runs = [*reversed(before), *runs_of(run.conversation).filter(pk=run.pk)]
    known = ToolCall.objects.select_related("approval").filter(run_ref__in=[r.pk for r in runs])
    calls = {str(call.pk): call for call in known}
    humans = list(
        Message.objects.filter(conversation=run.conversation, speaker=Speaker.HUMAN).order_by("id")
    )
    for past in runs:
        while humans and humans[0].created_at < past.created_at:
            add_human(state.history, humans.pop(0))
        add_run(state.history, past, past.steps.all(), calls)
    _load_open(state, list(runs[-1].steps.all()), calls)


def _load_open(state: RunState, steps: Sequence[Step], calls: dict[str, ToolCall]) -> None:
    for step in steps:
        if step.kind == StepKind.MODEL:
            state.open_calls = [UUID(call_id) for call_id in step.content["calls"]]
            if not state.open_calls:
                state.said.append(_text_of(step))
        elif step.kind == StepKind.RESULTS:
            for call_id in state.open_calls:
                state.count_failure(calls[str(call_id)])
            state.open_calls = []


def _text_of(step: Step) -> str:
    return "".join(b["text"] for b in step.content["blocks"] if b["type"] == "text")

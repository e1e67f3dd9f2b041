"""A run as its worker holds it: loaded once at the claim, then only added to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from uuid import UUID

from agents.context.history import History, add_human, add_run, call_data_later
from agents.context.prompt import Setting
from agents.leases import Lease
from agents.loop.progress import NOTHING_NEW, Progress
from agents.models import Message, Run, Step, StepKind
from boxoffice.billing.selectors import spent_today_ask, spent_today_read
from boxoffice.common.batch import Batch, loaded
from boxoffice.common.clock import now
from boxoffice.common.types import JsonObject
from tools.models import CallState, ToolCall
from tools.permissions import Caller, Grant, grant_ask, grant_read

MAX_RUNS_OF_HISTORY = 30


@dataclass(slots=True, kw_only=True)
class RunState:
    """What the nodes work on.

    ``open_calls`` are the calls of the newest turn, whose results are not committed. ``failures``
    counts, by tool and arguments, the calls of this run that failed; ``progress`` whether it gets
    anywhere. Both are counted from what is committed. ``grant`` says what to offer;
    it was read with the newest step, and dispatch reads it anew. ``as_of`` is when the runs before
    this one were read.
    """

    lease: Lease
    caller: Caller
    grant: Grant
    setting: Setting
    history: History
    as_of: datetime
    model: str
    max_steps: int
    max_output_tokens: int
    wall_seconds_left: float
    steps_used: int
    output_tokens: int
    cost_micros_left: int
    open_calls: list[UUID] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    told: set[UUID] = field(default_factory=set)
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)
    progress: Progress = field(default_factory=Progress)
    text: str = ""
    is_handed_off: bool = False

    @property
    def is_last_step(self) -> bool:
        """Whether only one more model call is allowed, which then gets no tools."""
        return self.steps_used >= self.max_steps - 1

    def answer(self, text: str) -> str:
        """All that this run has said as an answer: more than one when the fan wrote meanwhile."""
        return "\n\n".join(part for part in [*self.said, text] if part)

    def take_note(self, call: ToolCall) -> None:
        """What follows a call that brought text from outside is judged as having read it."""
        if call.outside is not None and not self.caller.is_tainted:
            self.caller = replace(self.caller, is_tainted=True)

    def count(self, calls: Sequence[ToolCall]) -> None:
        """Remember what came of a turn's calls, in order."""
        for call in calls:
            self._count_failure(call)
        self.progress.turn(calls)

    def _count_failure(self, call: ToolCall) -> None:
        """A call that did not succeed, unless another tool has stood in or it was not tried."""
        if call.result is not None or call.reason_code == NOTHING_NEW:
            return
        if call.state in (CallState.FAILED, CallState.DENIED):
            self.failures[call.tool, call.args_hash] += 1


_SETTING = """
SELECT c.user_id, c.language, t.name, t.time_zone, tier.max_day_cost_micros
FROM agents_run r
JOIN agents_conversation c ON c.id = r.conversation_id
JOIN tenancy_tenant t ON t.id = r.tenant_id
JOIN tenancy_tier tier ON tier.tenant_id = r.tenant_id AND tier.slug = r.tier
WHERE r.tenant_id = %s AND r.id = %s
"""
_RUNS = """
WHERE tenant_id = %s AND conversation_id = %s AND parent_id IS NULL AND id <= %s
ORDER BY id DESC LIMIT %s
"""
# What is to be taken back counts as taken back: nothing may be built on it any more.
_UNDONE = """
SELECT call_id, created_at FROM tools_undo
WHERE tenant_id = %s AND run_ref = ANY(%s) AND state IN ('due', 'undone')
"""


def state_load(*, lease: Lease) -> RunState:
    """Read everything a run needs to go on; in the tenant's scope, in two messages."""
    as_of = now()
    first = Batch()
    first.add(_SETTING, [lease.tenant_id, lease.run_id])
    about = [lease.tenant_id, lease.conversation_id]
    first.select(Run, _RUNS, [*about, lease.run_id, MAX_RUNS_OF_HISTORY + 1])
    humans = "WHERE tenant_id = %s AND conversation_id = %s AND speaker = 'human' ORDER BY id"
    first.select(Message, humans, about)
    setting, found_runs, found_humans = first.send()
    ((user_id, language, tenant_name, time_zone, max_day_cost),) = setting.rows
    runs = list(reversed(loaded(Run, found_runs)))
    run = runs[-1]
    lease.inherits = _inherited(runs)
    caller = Caller(
        tenant_id=lease.tenant_id,
        user_id=user_id,
        time_zone=time_zone,
        language=language,
        is_tainted=run.is_tainted or bool(lease.inherits),
    )
    second = Batch()
    spent_today_ask(second, tenant_id=lease.tenant_id, time_zone=time_zone, user_id=user_id)
    grant_ask(second, caller)
    of_runs = [lease.tenant_id, [each.pk for each in runs]]
    second.select(Step, "WHERE tenant_id = %s AND run_id = ANY(%s) ORDER BY run_id, seq", of_runs)
    second.select(ToolCall, "WHERE tenant_id = %s AND run_ref = ANY(%s)", of_runs)
    second.add(_UNDONE, of_runs)
    spent, grant, steps, calls, undos = second.send()
    state = RunState(
        lease=lease,
        caller=caller,
        grant=grant_read(grant),
        setting=Setting(tenant=tenant_name, language=language, time_zone=time_zone),
        history=History(),
        as_of=as_of,
        model=run.model,
        max_steps=run.max_steps,
        max_output_tokens=run.max_output_tokens,
        wall_seconds_left=max(0.0, run.max_wall_seconds - run.worked_ms / 1000),
        steps_used=run.steps_used,
        output_tokens=run.output_tokens,
        # The rest of the run's own budget, and of the fan's day.
        cost_micros_left=min(
            run.max_cost_micros - run.cost_micros, max_day_cost - spent_today_read(spent)
        ),
    )
    known = loaded(ToolCall, calls)
    undone = dict(undos.rows)
    for call in known:
        call.undone_since = undone.get(call.pk)
    _load_history(state, runs, loaded(Step, steps), known, loaded(Message, found_humans))
    return state


def _inherited(runs: list[Run]) -> JsonObject:
    """The mark that a run takes over from those in its history: their words are before it too."""
    *past, run = runs
    for marked in reversed(past):
        if marked.is_tainted and not run.is_tainted:
            return {"is_tainted": True, "tainted_by": marked.tainted_by}
    return {}


def _load_history(
    state: RunState,
    runs: list[Run],
    steps: list[Step],
    known: list[ToolCall],
    humans: list[Message],
) -> None:
    """The runs of the conversation before this one, then this one, then what is open in it."""
    calls = {str(call.pk): call for call in known}
    of_run: dict[UUID, list[Step]] = {run.pk: [] for run in runs}
    for step in steps:
        of_run[step.run_id].append(step)
    for past in runs:
        while humans and humans[0].created_at < past.created_at:
            add_human(state.history, humans.pop(0))
        add_run(state.history, past, of_run[past.pk], calls, call_data_later)
    _load_open(state, of_run[runs[-1].pk], calls)


def _load_open(state: RunState, steps: Sequence[Step], calls: dict[str, ToolCall]) -> None:
    for step in steps:
        if step.kind == StepKind.MODEL:
            state.open_calls = [UUID(call_id) for call_id in step.content["calls"]]
            if not state.open_calls:
                state.said.append(_text_of(step))
        elif step.kind == StepKind.RESULTS:
            # Those of copied steps are another run's.
            state.count([calls[str(pk)] for pk in state.open_calls if str(pk) in calls])
            state.is_handed_off = state.is_handed_off or "handoff" in step.content
            state.open_calls = []


def _text_of(step: Step) -> str:
    return "".join(b["text"] for b in step.content["blocks"] if b["type"] == "text")

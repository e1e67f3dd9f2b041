"""A run that is over, with all that its replay reads, and the requests that it sent."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from uuid import UUID

from django.db.models import Prefetch

from agents.context.history import History, add_human, add_run, call_data_as_of, flattened
from agents.context.request import sent_whole
from agents.loop.state import MAX_RUNS_OF_HISTORY
from agents.models import RUN_MACHINE, Message, PromptVersion, Run, Speaker, Step, StepKind
from agents.replay.errors import RunNotOver
from agents.selectors import run_get
from approvals.models import Decision
from boxoffice.common.exceptions import Forbidden, InvalidInput
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.principals import Principal
from tools.compensation import undone_since
from tools.models import ToolCall

RIGHT = "replay_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as it was sent, built again.

    ``prompt`` is ``None`` when it was not kept. ``told`` are the messages with their tool blocks,
    ``blocks`` counts all in them. ``is_exact``: whether they are those that were sent, by their
    digest; ``None`` when the step kept none.
    """

    prompt: PromptVersion | None
    digest: str
    rest: list[JsonObject]
    told: list[JsonObject]
    blocks: int
    max_tokens: int | None
    is_exact: bool | None
    as_of: datetime

    @property
    def system(self) -> list[JsonObject]:
        """The system prompt; empty when it is not known."""
        return [*self.prompt.system, *self.rest] if self.prompt else []

    @property
    def messages(self) -> list[JsonObject]:
        """As they were sent."""
        return flattened(self.told) if self.is_flattened else self.told

    @property
    def is_flattened(self) -> bool:
        """Whether no tool was offered, so that tool blocks were told as text."""
        return self.prompt is not None and not self.prompt.tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Everything, read once. ``past`` are the runs before this one in its conversation."""

    run: Run
    steps: list[Step]
    past: list[tuple[Run, list[Step]]]
    humans: list[Message]
    calls: dict[str, ToolCall]
    prompts: dict[str, PromptVersion]

    def step(self, seq: int) -> Step:
        """The step of that number; raises ``InvalidInput``."""
        found = next((step for step in self.steps if step.seq == seq), None)
        if found is None:
            raise InvalidInput(f"from: a step of this run, from 1 to {self.steps[-1].seq}.")
        return found

    def calls_of(self, step: Step) -> list[ToolCall]:
        """The calls that a model step proposed; a copied step's are another run's."""
        ids = step.content.get("calls", []) if step.kind == StepKind.MODEL else []
        return [self.calls[call_id] for call_id in ids if call_id in self.calls]

    def before(self, as_of: datetime) -> History:
        """The conversation before the run, as it was known at that moment."""
        history = History()
        humans = deque(self.humans)
        say = partial(call_data_as_of, moment=as_of)
        for past, steps in self.past:
            while humans and humans[0].created_at < past.created_at:
                add_human(history, humans.popleft())
            known = [step for step in steps if step.created_at <= as_of]
            add_run(history, past, known, self.calls, say)
        while humans and humans[0].created_at < self.run.created_at:
            add_human(history, humans.popleft())
        return history

    def walk(self) -> Iterator[tuple[Step, Asked | None]]:
        """Every step in order; a model step with the request that it answers.

        What was ``told`` grows in place from step to step: who keeps it makes a copy.
        """
        history, as_of, told = History(), None, 0
        for index, step in enumerate(self.steps):
            if step.kind != StepKind.MODEL or step.content.get("copied"):
                yield step, None
                continue
            moment = _as_of(step)
            if moment != as_of:  # another claim has read the runs before anew
                history, as_of, told = self.before(moment), moment, 0
            add_run(history, self.run, self.steps[told:index], self.calls)
            told = index
            yield step, self._asked(step, history)

    def _asked(self, step: Step, history: History) -> Asked:
        sent = step.sent or {}
        prompt = self.prompts.get(sent.get("prompt", ""))
        return Asked(
            prompt=prompt,
            digest=sent.get("prompt", ""),
            rest=sent.get("rest", []),
            told=history.messages,
            blocks=sum(len(message["content"]) for message in history.messages),
            max_tokens=sent.get("max_tokens"),
            is_exact=history.digest == sent["history"] if sent else None,
            as_of=_as_of(step),
        )


def _as_of(step: Step) -> datetime:
    if step.sent:
        return datetime.fromisoformat(step.sent["as_of"])
    return step.created_at


def over_run_get(*, principal: Principal, run_id: UUID) -> Run:
    """A run that the principal may walk through again.

    Raises ``NotFound`` for one that they may not see, ``Forbidden`` without the right,
    ``RunNotOver`` for one that is still at work.
    """
    run = run_get(principal=principal, run_id=run_id)
    if not principal.may(RIGHT):
        raise Forbidden("Replaying a run needs the right to do so (replay_runs).")
    over_check(run)
    return run


def over_check(run: Run) -> None:
    """Raise ``RunNotOver`` unless the run has ended."""
    if run.state not in RUN_MACHINE.terminal:
        raise RunNotOver(f"This run is not over yet ({run.state}).", hint="Wait until it is.")


def record_load(run: Run) -> Record:
    """Read the run and what was before it; in the tenant's scope, a fixed number of queries."""
    past = list(
        Run.objects.filter(conversation=run.conversation_id, parent=None, pk__lt=run.pk).order_by(
            "-pk"
        )[:MAX_RUNS_OF_HISTORY]
    )
    past.reverse()
    ids = [run.pk, *(each.pk for each in past)]
    rows = Step.objects.filter(run__in=ids).order_by("run_id", "seq")
    steps = {key: list(some) for key, some in groupby(rows, key=lambda step: step.run_id)}
    own = steps.get(run.pk, [])
    sent_whole(own)
    decisions = Prefetch("approval__decisions", queryset=Decision.objects.order_by("id"))
    calls = ToolCall.objects.filter(run_ref__in=ids).select_related("approval")
    digests = {step.sent["prompt"] for step in own if step.sent}
    humans = Message.objects.filter(conversation=run.conversation_id, speaker=Speaker.HUMAN)
    known = {str(call.pk): call for call in calls.prefetch_related(decisions)}
    for call_id, moment in undone_since(ids).items():
        known[str(call_id)].undone_since = moment
    return Record(
        run=run,
        steps=own,
        past=[(each, steps.get(each.pk, [])) for each in past],
        humans=list(humans.order_by("id")),
        calls=known,
        prompts={row.digest: row for row in PromptVersion.objects.filter(digest__in=digests)},
    )

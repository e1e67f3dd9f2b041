"""Replays with a model: asked for by a person, worked on by a worker, paid for by who asked."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from agents import handout
from agents.llm.turns import ModelTurn
from agents.models import REPLAY_MACHINE, Replay, ReplayState
from agents.replay.again import KEEPS_TO_IT, Again, Ask
from agents.replay.changes import model_changes, today_of
from agents.replay.errors import NothingFollows, RecordIncomplete, ThingsChanged
from agents.replay.record import over_run_get, record_load
from boxoffice.audit.services import record as audit
from boxoffice.billing.selectors import spent_today_micros
from boxoffice.billing.services import usage_record
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tier
from boxoffice.tenancy.principals import Principal, principal_of_member
from boxoffice.tenancy.readonly import reads_only
from boxoffice.tenancy.scope import operator_scope, tenant_scope

logger = logging.getLogger(__name__)

# A worker asks for at most so long; one that is silent for longer is gone.
WORK_SECONDS = 600
HAND_OUT_AGAIN = timedelta(seconds=5)
AT_ONCE = 100
# A replay holds a worker thread while the model speaks: most threads are for fans.
REPLAYS_PER_PROCESS = 2
_places = threading.BoundedSemaphore(REPLAYS_PER_PROCESS)

type HandOut = Callable[[UUID, UUID], None]


class BudgetUsedUp(BoxOfficeError):
    """Who asked for the replay may not spend more."""

    code = "budget_cost"
    hint = "Try again tomorrow, or ask for a higher limit."


def replay_ask(*, principal: Principal, run_id: UUID, from_step: int) -> Replay:
    """Have a worker ask the model again, from a step on; the one under way, if there is one.

    Raises as ``replay_check`` does.
    """
    who: JsonObject = {"asked_by_id": principal.user_id}
    with transaction.atomic():
        replay_check(principal=principal, run_id=run_id, from_step=from_step)
        replay, is_new = Replay.objects.get_or_create(
            run_id=run_id,
            from_step=from_step,
            state__in=[ReplayState.QUEUED, ReplayState.RUNNING],
            defaults=who,
        )
        if is_new:
            audit(
                action="agents.run.replayed",
                actor=principal.key,
                target=str(run_id),
                details={"replay": str(replay.pk), "from_step": from_step},
            )
            tenant_id = replay.tenant_id
            transaction.on_commit(lambda: handout.hand_out_replay(tenant_id, replay.pk))
    return replay


def replay_check(*, principal: Principal, run_id: UUID, from_step: int) -> None:
    """Whether a model can be asked again as it was.

    Raises ``NotFound``, ``Forbidden``, ``RunNotOver``, ``InvalidInput`` (no such step),
    ``NothingFollows``, ``RecordIncomplete`` when the prompt was not kept, and ``ThingsChanged``
    when the model is no longer one of the tenant's.
    """
    run = over_run_get(principal=principal, run_id=run_id)
    with reads_only():
        record = record_load(run)
        record.step(from_step)
        today = today_of(run.conversation, user_id=principal.user_id)
        again = Again.from_step(record, today.caller, from_step)
    if not again.steps:
        raise NothingFollows(_("From step %(step)d on, no model was asked.") % {"step": from_step})
    for step, asked in again.steps:
        if asked.prompt is None:
            raise RecordIncomplete(
                _("What the model was told at step %(step)d was not kept.") % {"step": step.seq},
                hint=_("Look at the replay without a model, or fork the run."),
            )
        gone = model_changes(asked.prompt.model, today)
        if gone:
            hint = _("Look at the replay without a model, or fork the run.")
            raise ThingsChanged(gone[0].message, changes=gone, hint=hint)


def replay_get(*, principal: Principal, replay_id: UUID) -> Replay:
    """A replay of a run that the principal may walk through again; else ``NotFound``."""
    found: Replay | None = Replay.objects.select_related("run").filter(pk=replay_id).first()
    if found is None:
        raise NotFound("Replay not found.")
    over_run_get(principal=principal, run_id=found.run_id)
    return found


def replay_work(*, tenant_id: UUID, replay_id: UUID, ask: Ask) -> None:
    """Work on a queued replay until it ends; nothing when another worker has it.

    ``ask`` speaks to the model. Each turn is stored and paid for before the next is asked. When
    this process is at work on as many as it may be, the replay stays queued, for the sweep.
    """
    if not _places.acquire(blocking=False):
        return
    try:
        _work_if_queued(tenant_id, replay_id, ask)
    finally:
        _places.release()


def _work_if_queued(tenant_id: UUID, replay_id: UUID, ask: Ask) -> None:
    with tenant_scope(tenant_id):
        mine = Replay.objects.filter(pk=replay_id)
        if not transition(mine, REPLAY_MACHINE, ReplayState.RUNNING, started_at=now()):
            return
        replay = mine.select_related("run__conversation").get()
        try:
            _work(replay, ask)
        except BoxOfficeError as error:
            _end(replay, ReplayState.FAILED, error=error.as_data()["error"])
        except Exception:
            logger.exception("replay %s failed", replay_id)
            error_data = {"code": "failed", "message": "The replay failed.", "retryable": False}
            _end(replay, ReplayState.FAILED, error=error_data)


def _work(replay: Replay, ask: Ask) -> None:
    run = replay.run
    purse = _purse(replay)
    with reads_only():
        today = today_of(run.conversation, user_id=replay.asked_by_id)
        again = Again.from_step(record_load(run), today.caller, replay.from_step)
    while (request := again.request()) is not None:
        purse.check(replay)
        turn = ask(request)
        compared = again.take(turn)
        if not _keep(replay, request.model, turn, compared.data):
            logger.warning("replay %s was given up meanwhile", replay.pk)
            return
        if compared.outcome not in KEEPS_TO_IT:
            break
    _end(replay, ReplayState.FINISHED, outcome=replay.turns[-1]["outcome"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Purse:
    """What who asked may spend: on this replay, and in a day."""

    replay_micros: int
    day_micros: int

    def check(self, replay: Replay) -> None:
        """Raise ``BudgetUsedUp`` when nothing is left."""
        spent = spent_today_micros(user_id=replay.asked_by_id)
        if replay.cost_micros >= self.replay_micros or spent >= self.day_micros:
            raise BudgetUsedUp("What may be spent is used up; the model was not asked further.")


def _purse(replay: Replay) -> _Purse:
    principal = principal_of_member(tenant_id=replay.tenant_id, user_id=replay.asked_by_id)
    if principal is None:
        raise NotFound("Who asked for the replay is no member any more.")
    tier = Tier.objects.get(pk=principal.tier_id)
    return _Purse(replay_micros=tier.max_run_cost_micros, day_micros=tier.max_day_cost_micros)


def _keep(replay: Replay, model: str, turn: ModelTurn, data: JsonObject) -> bool:
    """Store a turn and pay for it; whether the replay is still this worker's to go on with."""
    usage = turn.usage
    with transaction.atomic():
        entry = usage_record(
            user_id=replay.asked_by_id,
            run_id=replay.pk,
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
        )
        about = {"usage": usage.as_json(), "cost_usd": entry.cost_micros / 1_000_000}
        replay.turns.append(data | about)
        replay.cost_micros += entry.cost_micros
        Replay.objects.filter(pk=replay.pk).update(
            turns=replay.turns, cost_micros=replay.cost_micros
        )
        return Replay.objects.filter(pk=replay.pk, state=ReplayState.RUNNING).exists()


def _end(
    replay: Replay, state: ReplayState, *, outcome: str = "", error: JsonObject | None = None
) -> None:
    transition(
        Replay.objects.filter(pk=replay.pk),
        REPLAY_MACHINE,
        state,
        only_from=ReplayState.RUNNING,
        outcome=outcome,
        error=error,
        finished_at=now(),
    )


def sweep(hand_out: HandOut) -> None:
    """Wake a worker for what is queued, and close what a worker has left behind."""
    lost = {
        "code": "worker_lost",
        "message": "The worker is gone; what it had asked is kept.",
        "retryable": True,
        "hint": "Ask again.",
    }
    with operator_scope("replays of all tenants"):
        transition(
            Replay.objects.filter(started_at__lt=now() - timedelta(seconds=WORK_SECONDS)),
            REPLAY_MACHINE,
            ReplayState.FAILED,
            only_from=ReplayState.RUNNING,
            error=lost,
            finished_at=now(),
        )
        queued = Replay.objects.filter(
            state=ReplayState.QUEUED, created_at__lt=now() - HAND_OUT_AGAIN
        )
        due = list(queued.order_by("pk").values_list("tenant_id", "pk")[:AT_ONCE])
    for tenant_id, replay_id in due:
        hand_out(tenant_id, replay_id)

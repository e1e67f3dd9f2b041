"""A worker's hold on a run: taken, renewed, and named by every write.

A write names its epoch and fails with ``LeaseLost`` when the run has been claimed anew, so a
worker that was thought dead can commit nothing more.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import Model

from agents import turns
from agents.models import RUN_MACHINE, Run, RunState, Step, StepKind
from boxoffice.common import crash
from boxoffice.common.batch import Answer, Batch, FromNow, Plus
from boxoffice.common.transitions import transition_add
from boxoffice.common.types import JsonObject


class LeaseLost(Exception):
    """The run belongs to another worker, or to nobody, by now."""


class StopRequested(Exception):
    """The fan has stopped the run: nothing more is begun."""


@dataclass(slots=True, kw_only=True)
class Lease:
    """A worker's hold on a run. ``seq`` is the newest committed step's number.

    ``inherits`` is the mark of text from outside in the runs before this one, for its next steps;
    ``sent`` what the newest model step under this lease keeps of its request.
    """

    run_id: UUID
    tenant_id: UUID
    conversation_id: UUID
    epoch: int
    seq: int
    event_seq: int
    worked_since: float
    inherits: Mapping[str, Any] = field(default_factory=dict)
    sent: Mapping[str, Any] = field(default_factory=dict)

    def worked_ms(self) -> int:
        """Milliseconds of work since the last commit; counting starts anew."""
        started, self.worked_since = self.worked_since, time.monotonic()
        return int((self.worked_since - started) * 1000)


def run_claim(*, owner: str, run_id: UUID | None = None, is_scarce: bool = False) -> Lease | None:
    """Take the run whose turn it is among those of the open scope (``agents.turns``).

    ``run_id`` narrows the choice to that run, ``is_scarce`` to tenants that have none at work.
    ``None`` when no run may begin now. One message, whose transaction ends with it.
    """
    batch = Batch()
    turns.alone(batch)
    transition_add(
        batch,
        Run,
        RUN_MACHINE,
        RunState.RUNNING,
        where={"id": turns.next_run(run_id=run_id, is_scarce=is_scarce)},
        changes={
            "lease_owner": owner,
            "lease_epoch": Plus(1),
            "lease_until": FromNow(settings.LEASE_SECONDS),
        },
        returning=["id", "tenant", "conversation", "lease_epoch", "last_seq", "event_seq"],
    )
    *_, claimed = batch.commit()
    if not claimed.rows:
        return None
    ((found_id, tenant_id, conversation_id, epoch, seq, event_seq),) = claimed.rows
    crash.point("claimed", conversation_id)
    return Lease(
        run_id=found_id,
        tenant_id=tenant_id,
        conversation_id=conversation_id,
        epoch=epoch,
        seq=seq,
        event_seq=event_seq,
        worked_since=time.monotonic(),
    )


@contextmanager
def unit(lease: Lease) -> Iterator[None]:
    """A transaction of the run's own writes: what is rolled back has not been counted either."""
    seq, worked_since, sent = lease.seq, lease.worked_since, lease.sent
    try:
        with transaction.atomic():
            yield
    except BaseException:
        lease.seq, lease.worked_since, lease.sent = seq, worked_since, sent
        raise


def held(lease: Lease) -> dict[str, Any]:
    """What the run's row is like as long as the lease holds, for ``Batch.update``."""
    return {
        "tenant_id": lease.tenant_id,
        "id": lease.run_id,
        "lease_epoch": lease.epoch,
        "state": RunState.RUNNING,
    }


def leave_add(
    batch: Batch,
    lease: Lease,
    state: RunState,
    *,
    where: Mapping[str, Any] | None = None,
    **changes: Any,
) -> None:
    """Add the end of the lease to a batch; the answer's count is 0 if it was lost before.

    ``where`` says what else must be true of the run.
    """
    here = held(lease) | dict(where or {})
    del here["state"]
    given_up = {"lease_owner": "", "lease_until": None, **changes}
    transition_add(batch, Run, RUN_MACHINE, state, where=here, changes=given_up)


_FENCE = """
SELECT cancel_requested_at, is_tainted FROM agents_run
WHERE tenant_id = %s AND id = %s AND lease_epoch = %s AND state = 'running'
"""


def fence(lease: Lease) -> bool:
    """For a write by a tool: the run is held until the transaction ends.

    Returns whether the run has read text from outside. Raises ``LeaseLost``, or ``StopRequested``
    when the fan has stopped the run.
    """
    cancel_requested_at, is_tainted = _fence(lease, "FOR NO KEY UPDATE")
    if cancel_requested_at is not None:
        raise StopRequested(str(lease.run_id))
    return is_tainted


def fence_read(lease: Lease) -> bool:
    """For a read: as ``fence``, without holding the row."""
    _, is_tainted = _fence(lease, "")
    return is_tainted


def _fence(lease: Lease, lock: str) -> tuple[datetime | None, bool]:
    batch = Batch()
    batch.add(_FENCE + lock, [lease.tenant_id, lease.run_id, lease.epoch])
    (answer,) = batch.send()
    for cancel_requested_at, is_tainted in answer.rows:
        return cancel_requested_at, is_tainted
    raise LeaseLost(str(lease.run_id))


def append(
    lease: Lease,
    kind: StepKind,
    content: JsonObject,
    *,
    about: Mapping[str, Any] | None = None,
    counters: Mapping[str, Any] | None = None,
    rows: Iterable[Model] = (),
    then: Batch | None = None,
) -> list[Answer]:
    """Move the run's counters, and add its next step and the ``rows`` that belong to it.

    All in one message, in which ``then`` follows; its answers are returned. Raises ``LeaseLost``.
    """
    seq = lease.seq + 1
    batch = Batch()
    batch.update(
        Run,
        changes={
            "last_seq": seq,
            "event_seq": lease.event_seq,
            "worked_ms": Plus(lease.worked_ms()),
            **lease.inherits,
            **(counters or {}),
        },
        where=held(lease),
    )
    for row in rows:
        batch.insert(row)
    batch.insert(
        Step(
            tenant_id=lease.tenant_id,
            run_id=lease.run_id,
            seq=seq,
            epoch=lease.epoch,
            kind=kind,
            content=content,
            **(about or {}),
        )
    )
    count = len(batch)
    if then is not None:
        batch.extend(then)
    try:
        answers = batch.send()
    except IntegrityError as error:
        if _is_fenced(error):
            raise LeaseLost(str(lease.run_id)) from None
        raise
    if not answers[0].count:
        raise LeaseLost(str(lease.run_id))
    lease.seq = seq
    return answers[count:]


def _is_fenced(error: IntegrityError) -> bool:
    """Whether the step was refused because its epoch is over."""
    context = getattr(getattr(error.__cause__, "diag", None), "context", None)
    return "agents_step_fence" in (context or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """What a heartbeat found of one run."""

    run_id: UUID
    epoch: int
    is_cancelled: bool


def heartbeat(*, owner: str, run_ids: Sequence[UUID]) -> list[Beat]:
    """Renew the leases that are still this worker's, in one statement; what is missing is lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agents_run SET lease_until = now() + make_interval(secs => %s) "
            "WHERE id = ANY(%s) AND lease_owner = %s AND state = 'running' "
            "RETURNING id, lease_epoch, cancel_requested_at IS NOT NULL",
            [settings.LEASE_SECONDS, list(run_ids), owner],
        )
        rows = cursor.fetchall()
    return [Beat(run_id=row[0], epoch=row[1], is_cancelled=row[2]) for row in rows]

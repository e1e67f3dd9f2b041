"""Writing down what became of a call, with the consumption of its approval."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connection, transaction
from pydantic import ValidationError

from approvals import services as approvals
from boxoffice.common.batch import Batch
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotSent, OutcomeLost
from boxoffice.common.transitions import transition_add
from boxoffice.common.types import JsonObject
from tools import failures, registry
from tools.models import CALL_MACHINE, CallState, RemoteEffect, ToolCall
from tools.outputs import bounded
from tools.outside import ALL, outside_fields, outside_mark_add
from tools.spec import Remote, ToolContext, ToolInput, ToolSpec

logger = logging.getLogger(__name__)

# What the column holds: somebody may find out a month later.
MOST_LATENCY_MS = 2**31 - 1

_SETTLED = {
    CallState.SUCCEEDED: "executed",
    CallState.FAILED: "failed",
    CallState.UNKNOWN: "unknown",
}


class Outcome(StrEnum):
    """What ``call_run`` found or did."""

    DONE = "done"
    NEEDS_HUMAN = "needs_human"
    PENDING = "pending"
    REMOTE = "remote"
    RETRY = "retry"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """What another party is to be asked. ``is_first``: nobody has asked for this before.

    ``spec`` is ``None`` when the tool no longer exists. ``may_send`` is false for a call that a
    person looks at already: then it is only looked up. ``circuit`` is the name of the circuit that
    the first sending was let in by, empty for the tool's own.
    """

    call_id: UUID
    tenant_id: UUID
    key: str
    request: JsonObject
    spec: ToolSpec | None
    is_first: bool
    may_send: bool = True
    circuit: str = ""

    @property
    def tool(self) -> str:
        """The tool's name; empty when it no longer exists."""
        return "" if self.spec is None else self.spec.name

    @property
    def timeout_s(self) -> float:
        """How long one sending may take."""
        return 0.0 if self.spec is None else self.spec.timeout_s

    @property
    def remote(self) -> Remote | None:
        """The other party's part of the tool, if the tool still has one."""
        return None if self.spec is None else self.spec.remote


@dataclass(frozen=True, slots=True, kw_only=True)
class CallReport:
    """One call after dispatch. ``call`` is over when ``outcome`` is ``DONE``.

    With ``REMOTE`` it goes on: ``remote.ask`` and then ``remote.conclude``. With ``RETRY`` it is
    to be dispatched again after ``pause`` seconds. ``heard`` is what the tool's circuit is to be
    told (nothing when it has been), ``stand_in_heard`` what that of its fallback is.
    """

    call: ToolCall
    outcome: Outcome
    sending: Sending | None = None
    pause: float = 0.0
    heard: str = "void"
    stand_in_heard: str = "void"


def sending_of(call: ToolCall, effect: RemoteEffect, *, is_first: bool) -> Sending:
    """What another party is asked, or has been asked, on behalf of a call."""
    return Sending(
        call_id=call.pk,
        tenant_id=call.tenant_id,
        key=call.idempotency_key,
        request=effect.request,
        circuit=effect.circuit,
        spec=registry.find(call.tool),
        is_first=is_first,
        may_send=call.state == CallState.RUNNING,
    )


def attempt[R](spec: ToolSpec, work: Callable[[], R]) -> tuple[R | None, JsonObject | None]:
    """Do the tool's own work in a savepoint: what it gave, or its error as data.

    What is wrong with the database itself is raised.
    """
    try:
        with transaction.atomic():
            connection.limit_statements(spec.timeout_s)  # type: ignore[attr-defined]
            return work(), None
    except BoxOfficeError as error:
        return None, error.as_data()["error"]
    except ValidationError:
        return None, _bad_result(spec)
    except WrongResult as error:
        logger.error("tool %s gave a wrong result: %s", spec.name, error)
        return None, _bad_result(spec)
    except DatabaseError as error:
        if not _is_statement_timeout(error):
            raise
        return None, failures.timed_out(spec.name, spec.timeout_s)
    except (NotSent, OutcomeLost, ConnectionError, TimeoutError) as error:
        logger.warning("tool %s: %s: %s", spec.name, type(error).__name__, error)
        return None, failures.unavailable(spec.name, getattr(error, "retry_after", None))
    except Exception:
        logger.exception("tool %s failed", spec.name)
        return None, failures.failed()


class WrongResult(Exception):
    """A result that fits its contract and cannot be right; the text is for the log."""


def result_of(spec: ToolSpec, context: ToolContext, arguments: ToolInput) -> JsonObject:
    """Run the tool's own part, and hold its result to what the tool promises.

    Raises the tool's errors, and ``WrongResult``.
    """
    result = spec.run(context, arguments)
    fault = spec.check(result, arguments) if spec.check is not None else ""
    if fault:
        raise WrongResult(fault)
    data: JsonObject = result.model_dump(mode="json")
    return data


def over(call: ToolCall, state: CallState, started: float, **changes: Any) -> CallReport:
    """Store the outcome and, in the same transaction, that its approval has been used.

    So is the mark of whoever will read text from outside in it.
    """
    was = call.state
    changes["outside"] = _outside_of(call, changes)
    if changes.get("result") is not None:
        changes["result"] = bounded(call, changes["result"])
    report = finish(
        call,
        state,
        started,
        attempts=call.attempts,
        **call.judged,
        **changes,
    )
    # An approval whose outcome was unknown stays so: what was found later is in the ledger.
    if call.approval is not None and was != CallState.UNKNOWN:
        approvals.settle(
            request_id=call.approval.pk,
            outcome=_SETTLED[state],  # type: ignore[arg-type]
            detail=call.error or {},
        )
    return report


def _outside_of(call: ToolCall, changes: JsonObject) -> list[str] | None:
    """Which fields of the outcome others wrote; of another tool's that stood in, what it says."""
    spec = registry.find(call.tool)
    if changes.get("outside") is not None or spec is None:
        return changes.get("outside")
    result = changes.get("result")
    if spec.is_outside and (result or changes.get("error")) is not None:
        return ALL
    return None if result is None else outside_fields(spec.outside, result)


def with_decision(call: ToolCall, result: JsonObject) -> JsonObject:
    """What the model is told of a decision: by which role, and what was changed."""
    request = call.approval
    if request is None:
        return result
    by = "fan" if request.gate == "fan" else "reviewer"
    decision: JsonObject = {"approved_by": by}
    if request.edited_arguments is not None:
        decision["arguments_changed_to"] = request.edited_arguments
    return result | {"decision": decision}


def finish(call: ToolCall, state: CallState, started: float, **changes: Any) -> CallReport:
    """Move a call to its end, with the time that it took."""
    latency = min(max(0, int((time.monotonic() - started) * 1000)), MOST_LATENCY_MS)
    move(call, state, latency_ms=latency, finished_at=now(), **changes)
    return CallReport(call=call, outcome=Outcome.DONE)


def move(call: ToolCall, state: CallState, **changes: Any) -> None:
    """One guarded move of a row that this transaction has locked, mirrored on the instance."""
    batch = Batch()
    where = {"tenant_id": call.tenant_id, "id": call.pk}
    transition_add(batch, ToolCall, CALL_MACHINE, state, where=where, changes=changes)
    if changes.get("outside") is not None:
        outside_mark_add(batch, call)
    moved, *_ = batch.send()
    if moved.count != 1:
        raise RuntimeError(f"Tool call {call.pk} could not become {state}.")
    for name, value in {"state": state, **changes}.items():
        setattr(call, name, value)


def _is_statement_timeout(error: DatabaseError) -> bool:
    return getattr(error.__cause__, "sqlstate", "") == "57014"


def _bad_result(spec: ToolSpec) -> JsonObject:
    return {
        "code": "invalid_result",
        "message": f"{spec.name} gave a result that does not fit its contract.",
        "retryable": False,
        "hint": "Nothing was changed. Use another way, or hand over to a person.",
    }

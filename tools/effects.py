"""The ledger of tool calls: proposing, and reading what became of a call."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from boxoffice.common.types import JsonObject, is_too_deep, storable
from boxoffice.tenancy.models import Tenant
from tools import registry
from tools.models import CallState, ToolCall
from tools.permissions import Caller
from tools.spec import ToolContext, ToolSpec

MAX_ARGUMENT_BYTES = 100_000
UNREADABLE = "_unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A call as the model wrote it. ``arguments`` is ``None`` when its JSON could not be read."""

    call_id: str
    tool: str
    arguments: Any


def calls_propose(
    *,
    caller: Caller,
    proposals: Sequence[Proposal],
    origin: str,
    run_id: UUID,
    conversation_id: UUID,
    key_prefix: str,
) -> list[ToolCall]:
    """Write one row per proposed call, in order, in the caller's transaction; see ``drafts``."""
    rows = calls_draft(
        caller=caller,
        proposals=proposals,
        origin=origin,
        run_id=run_id,
        conversation_id=conversation_id,
        key_prefix=key_prefix,
    )
    return list(ToolCall.objects.bulk_create(rows))


def calls_draft(
    *,
    caller: Caller,
    proposals: Sequence[Proposal],
    origin: str,
    run_id: UUID,
    conversation_id: UUID,
    key_prefix: str,
) -> list[ToolCall]:
    """One row per proposed call, in order, still to be written.

    The idempotency keys are ``<key_prefix>:<index>``: a model that repeats a call id gets no
    second effect out of it.
    """
    return [
        _row(
            caller=caller,
            proposal=proposal,
            origin=origin,
            run_id=run_id,
            conversation_id=conversation_id,
            key=f"{key_prefix}:{index}",
        )
        for index, proposal in enumerate(proposals)
    ]


def _row(
    *,
    caller: Caller,
    proposal: Proposal,
    origin: str,
    run_id: UUID,
    conversation_id: UUID,
    key: str,
) -> ToolCall:
    arguments = proposal.arguments
    arguments = {UNREADABLE: "too_deep"} if is_too_deep(arguments) else storable(arguments)
    text = json.dumps(arguments, sort_keys=True)
    if len(text) > MAX_ARGUMENT_BYTES:
        arguments, text = {UNREADABLE: "too_long", "length": len(text)}, text[:1000]
    elif proposal.arguments is None:
        arguments = {UNREADABLE: "invalid_json"}
    spec = registry.find(proposal.tool)
    return ToolCall(
        tenant_id=caller.tenant_id,
        call_id=storable(proposal.call_id)[:128],
        origin=origin,
        run_ref=run_id,
        conversation_ref=conversation_id,
        user_id=caller.user_id,
        tool=storable(proposal.tool)[:128],
        tool_version=spec.version if spec else "",
        arguments=arguments,
        args_hash=hashlib.sha256(text.encode()).hexdigest(),
        idempotency_key=key,
    )


def calls_of_run(run_id: UUID) -> QuerySet[ToolCall]:
    """All calls of a run, in the order in which they were proposed."""
    return ToolCall.objects.filter(run_ref=run_id).order_by("id")


def has_pending_approval(call: ToolCall) -> bool:
    """Whether a human has still to decide on the call (its approval must be loaded)."""
    return (
        call.state == CallState.GATED
        and call.approval is not None
        and call.approval.state == "pending"
    )


def outcome_data(call: ToolCall) -> JsonObject:
    """What the model is given for a call that is over: the result, or the error as data.

    A call that failed has a result when another tool stood in.
    """
    if call.result is not None:
        return call.result  # type: ignore[no-any-return]
    if call.error is not None:
        return {"error": call.error}
    return {
        "error": {
            "code": "not_run",
            "message": "This call was not run.",
            "retryable": False,
            "hint": "",
        }
    }


def stand_in_draft(call: ToolCall, spec: ToolSpec) -> ToolCall:
    """The row, still to be written, of the call of ``spec`` that stands in for ``call``."""
    return ToolCall(
        tenant_id=call.tenant_id,
        call_id=call.call_id,
        origin=f"fallback:{call.pk}",
        run_ref=call.run_ref,
        conversation_ref=call.conversation_ref,
        user_id=call.user_id,
        tool=spec.name,
        tool_version=spec.version,
        arguments=call.arguments,
        args_hash=call.args_hash,
        idempotency_key=f"{call.idempotency_key}:fallback",
    )


def effective_arguments(call: ToolCall) -> Any:
    """The arguments with which a call runs: those that its human agreed to, if there was one."""
    return call.arguments if call.approval is None else call.approval.effective_arguments


def caller_of(call: ToolCall) -> Caller:
    """On whose behalf a call is, for work that no run does."""
    tenant = Tenant.objects.get(pk=call.tenant_id)
    return Caller(
        tenant_id=tenant.pk,
        user_id=call.user_id,
        time_zone=tenant.time_zone,
        language=tenant.language,
    )


def context_of(call: ToolCall, caller: Caller) -> ToolContext:
    """Who a call is for, as its tool sees it."""
    return ToolContext(
        tenant_id=caller.tenant_id,
        user_id=caller.user_id,
        time_zone=caller.time_zone,
        language=caller.language,
        idempotency_key=call.idempotency_key,
        conversation_id=call.conversation_ref,
        run_id=call.run_ref,
    )

"""Asking a human about a call, and what their word is worth once it is given.

An approval binds to tool version, arguments and previewed state; whatever moved meanwhile voids it.
"""

import hashlib
import json
import logging
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction

from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from tools import guard, registry
from tools.effects import context_of
from tools.guard import Verdict
from tools.models import CALL_MACHINE, CallState, Effect, ToolCall
from tools.permissions import Caller
from tools.previews import preview_of
from tools.spec import ToolInput, ToolSpec

logger = logging.getLogger(__name__)


_GATES = {Effect.CONFIRM: "fan", Effect.APPROVE: "reviewer"}


def ask(*, call: ToolCall, verdict: Verdict, caller: Caller, reason: str) -> ApprovalRequest:
    """Put a call before its human, in the caller's transaction.

    Raises the preview's error when what would change cannot be shown.
    """
    spec, arguments = verdict.parts()
    context = context_of(call, caller)
    preview = preview_of(spec, context, arguments)
    is_fan = verdict.effect is Effect.CONFIRM
    request = approvals.request_create(
        action=spec.name,
        arguments=arguments.model_dump(mode="json", exclude_none=True),
        gate=_GATES[verdict.effect],
        requested_for_id=caller.user_id,
        reason=reason,
        preview=preview,
        binding_hash=binding_hash(spec, arguments, preview),
        reference={
            "call": str(call.pk),
            "run": str(call.run_ref),
            "conversation": str(call.conversation_ref),
            "origin": call.origin,
        },
        risk=spec.risk.value,
        rule=f"{verdict.policy_version}/{verdict.rule or verdict.code}",
        quorum=verdict.reviewers,
        seconds=settings.FAN_CONFIRM_SECONDS if is_fan else settings.APPROVAL_SECONDS,
    )
    if spec.on_gated is not None:
        spec.on_gated(context, arguments, request.expires_at)
    return request


def binding_hash(spec: ToolSpec, arguments: ToolInput, preview: JsonObject | None) -> str:
    """What an approval binds to: tool version, arguments, and the state that was shown."""
    bound = [spec.version, arguments.model_dump(mode="json"), preview]
    return hashlib.sha256(_as_json(bound).encode()).hexdigest()


def what_moved(
    *, call: ToolCall, verdict: Verdict, caller: Caller, request: ApprovalRequest
) -> JsonObject | None:
    """The error if what was approved is no longer what would be done; fails closed."""
    spec, arguments = verdict.parts()
    try:
        preview = preview_of(spec, context_of(call, caller), arguments)
    except BoxOfficeError as error:
        moved: JsonObject = error.as_data()["error"]
        return moved
    is_same = spec.version == call.tool_version and _is_enough(verdict, request)
    if request.edited_arguments is None:
        is_same &= binding_hash(spec, arguments, preview) == request.binding_hash
    else:
        is_same &= _as_json(preview) == _as_json(request.edited_preview)
    if is_same:
        return None
    return {
        "code": "approval_void",
        "message": "What was approved has changed meanwhile, so it was not done.",
        "retryable": True,
        "hint": "Look at the present state and ask again if it is still wanted.",
    }


def _is_enough(verdict: Verdict, request: ApprovalRequest) -> bool:
    """A fan's word does not do where a reviewer's is needed by now, nor one where two are."""
    if verdict.effect is not Effect.APPROVE:
        return True
    return request.gate == "reviewer" and request.quorum >= verdict.reviewers


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def abandon(*, run_id: UUID, error: JsonObject) -> int:
    """Close what an ended run still waits for, with the requests; returns how many calls."""
    waiting = ToolCall.objects.select_for_update().filter(run_ref=run_id, state=CallState.GATED)
    if not list(waiting.order_by("id").values_list("pk", flat=True)):
        return 0
    approvals.requests_abandon(run_ref=run_id, detail=error)
    return transition(
        ToolCall.objects.filter(run_ref=run_id),
        CALL_MACHINE,
        CallState.DENIED,
        only_from=CallState.GATED,
        reason_code=error["code"],
        error=error,
        finished_at=now(),
    )


def give_back(call: ToolCall, caller: Caller) -> bool:
    """What was kept for the decision is free again once the decision is no; whether it is."""
    spec = registry.find(call.tool)
    if spec is None or spec.on_refused is None:
        return False
    try:
        with transaction.atomic():
            spec.on_refused(context_of(call, caller), guard.parse(spec, call.arguments))
    except (BoxOfficeError, guard.ArgumentsInvalid) as error:
        logger.info("nothing to give back for call %s: %s", call.pk, error)
        return False
    return True


def refusal(request: ApprovalRequest, *, is_given_back: bool) -> JsonObject:
    """What the model is told of a request that nobody approved."""
    decision = request.decisions.order_by("-id").first()
    said = (decision.note if decision else "") or ""
    who = "the fan" if request.gate == "fan" else "a reviewer"
    texts = {
        "denied": (f"denied_by_{request.gate}", f"This was declined by {who}."),
        "expired": ("approval_expired", "Nobody decided in time, so it was not done."),
        "withdrawn": ("approval_withdrawn", "The fan took the request back."),
    }
    code, message = texts.get(request.state, ("not_approved", "This was not approved."))
    if said:
        message = f"{message} Reason given: {said}"
    if is_given_back:
        message = f"{message} What was kept for it has been given back."
    return {
        "code": code,
        "message": message,
        "retryable": False,
        "hint": "Tell the fan, with the reason if there is one. Do not try it again.",
    }

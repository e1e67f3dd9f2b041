"""Asking for a human's word, giving it, and writing down what came of it."""

import hashlib
import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Literal
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.dispatch import Signal
from django.utils.translation import gettext as _

from approvals import signals
from approvals.exceptions import AlreadyDecided
from approvals.models import REQUEST_STATES, ApprovalRequest, Decision, Gate, State, Verb
from approvals.permissions import decider_check, not_found
from approvals.ports import port
from boxoffice.audit import services as audit
from boxoffice.common import crash
from boxoffice.common.clock import now
from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import User
from boxoffice.tenancy.principals import Principal
from boxoffice.tenancy.scope import operator_scope, tenant_scope

CLOCK = "system:clock"
REASON_MIN = 3
TEXT_MAX = 2000
EXPIRE_BATCH = 200


def request_create(
    *,
    action: str,
    arguments: JsonObject,
    gate: str,
    requested_for_id: int | None,
    reason: str,
    preview: JsonObject | None,
    binding_hash: str,
    reference: Mapping[str, str],
    risk: str,
    rule: str,
    quorum: int = 1,
    seconds: int | None = None,
) -> ApprovalRequest:
    """Ask for a human's word on ``action``, in the caller's transaction and tenant.

    ``seconds`` is how long the request waits (``APPROVAL_SECONDS`` by default); ``reference``
    holds the asker's own names: ``call``, ``run``, ``conversation``, ``step``, ``origin``.
    ``signals.requested`` follows the commit. Raises ``TransactionManagementError`` outside a
    transaction: the request must commit together with whatever waits for it.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("A request needs its caller's transaction.")
    lifetime = settings.APPROVAL_SECONDS if seconds is None else seconds
    asker = User.objects.filter(pk=requested_for_id).first() if requested_for_id else None
    request: ApprovalRequest = ApprovalRequest.objects.create(
        action=action,
        arguments=arguments,
        gate=Gate(gate),
        quorum=quorum,
        requested_for=asker,
        requested_by_label=(asker.get_full_name() or asker.get_username()) if asker else "",
        risk=risk,
        rule=rule,
        reason=reason,
        preview=preview,
        binding_hash=binding_hash,
        reference=dict(reference),
        run_ref=_uuid(reference.get("run")),
        conversation_ref=_uuid(reference.get("conversation")),
        expires_at=now() + timedelta(seconds=lifetime),
    )
    audit.record(
        action="approvals.request.created",
        actor=reference.get("origin") or "system:agent",
        target=_target(request.pk),
        details=_described(request),
    )
    _announce(signals.requested, request)
    return request


def approve(
    *,
    request_id: UUID,
    principal: Principal,
    note: str = "",
    arguments: JsonObject | None = None,
) -> ApprovalRequest:
    """Say yes. The request is ``approved`` once enough different people have (``quorum``).

    ``arguments`` replace the asked ones (a reviewer's edit, before anybody else approved); the
    action's owner checks them first. Raises ``NotFound`` for whom the request is not, ``FourEyes``,
    ``AlreadyDecided`` and ``InvalidInput``.
    """
    note = _text("note", note)
    with transaction.atomic():
        request, user_id = _open_for_decision(request_id, principal)
        given = list(request.decisions.filter(verb=Verb.APPROVE).select_related("user"))
        mine = next((one for one in given if one.user_id == user_id), None)
        if mine is not None:
            raise AlreadyDecided(_("You have approved this already."), extra=_by(mine, request))
        edit = _edit(request, arguments, first=not given)
        Decision.objects.create(
            request=request, user_id=user_id, verb=Verb.APPROVE, note=note, arguments=edit
        )
        if edit is not None:
            request.edited_arguments = edit
            request.edited_preview = port().preview(
                action=request.action,
                arguments=edit,
                requested_for_id=request.requested_for_id,
            )
            request.save(update_fields=["edited_arguments", "edited_preview"])
        missing = request.quorum - len(given) - 1
        audit.record(
            action="approvals.request.approved",
            actor=principal.key,
            target=_target(request.pk),
            details=_described(request)
            | {"note": note, "edited": edit is not None}
            | {"approvals_missing": missing},
        )
        if missing <= 0:
            _move(request, State.APPROVED)
        _announce(signals.counted if missing > 0 else signals.decided, request)
    return request


def deny(*, request_id: UUID, principal: Principal, reason: str = "") -> ApprovalRequest:
    """Say no. A reviewer gives a reason (3 characters or more); a fan may.

    Raises as ``approve`` does.
    """
    reason = _text("reason", reason)
    with transaction.atomic():
        request, user_id = _open_for_decision(request_id, principal)
        if request.gate == Gate.REVIEWER and len(reason) < REASON_MIN:
            raise InvalidInput(
                _("reason: at least %(least)d characters.") % {"least": REASON_MIN},
                hint=_("The reason is shown to the fan."),
            )
        _end(request, State.DENIED, Verb.DENY, actor=principal.key, user_id=user_id, note=reason)
    return request


def withdraw(*, request_id: UUID, principal: Principal) -> ApprovalRequest:
    """Take a request back; only the fan for whom it was made can, at either gate.

    Raises ``NotFound`` for everybody else, and ``AlreadyDecided``.
    """
    with transaction.atomic():
        request = _locked(request_id)
        if principal.user_id is None or principal.user_id != request.requested_for_id:
            raise not_found()
        _refuse_decided(request)
        _end(
            request,
            State.WITHDRAWN,
            Verb.WITHDRAW,
            actor=principal.key,
            user_id=principal.user_id,
        )
    return request


def expire_due() -> int:
    """End what has waited too long, in every tenant. Returns how many requests expired."""
    with operator_scope("expiry of approval requests"):
        due = list(
            ApprovalRequest.objects.filter(state=State.PENDING, expires_at__lte=now())
            .order_by("expires_at")
            .values_list("pk", "tenant_id")[:EXPIRE_BATCH]
        )
    return sum(_expire(pk, tenant_id) for pk, tenant_id in due)


def requests_abandon(*, run_ref: UUID, detail: JsonObject) -> int:
    """End what an ended run still asks for, in the caller's transaction. Returns how many.

    What is pending is withdrawn in the name of the fan for whom it was asked; what was approved
    and not done yet has failed, with ``detail``.
    """
    rows = ApprovalRequest.objects.select_for_update(of=("self",)).filter(
        run_ref=run_ref, state__in=[State.PENDING, State.APPROVED]
    )
    requests = list(rows.order_by("id"))
    for request in requests:
        if request.state == State.APPROVED:
            settle(request_id=request.pk, outcome="failed", detail=detail)
            continue
        fan_id = request.requested_for_id
        state, verb = (State.WITHDRAWN, Verb.WITHDRAW) if fan_id else (State.EXPIRED, Verb.EXPIRE)
        _end(request, state, verb, actor="system:agent", user_id=fan_id)
    return len(requests)


def settle(
    *,
    request_id: UUID,
    outcome: Literal["executed", "failed", "unknown"],
    detail: JsonObject,
) -> ApprovalRequest:
    """Write down what came of an approved action, in the caller's transaction or an own one.

    Raises ``Conflict`` (``AlreadyDecided``) when it is not approved, or settled already.
    """
    with transaction.atomic():
        moved = transition(
            ApprovalRequest.objects.filter(pk=request_id),
            REQUEST_STATES,
            State(outcome),
            settled=detail,
            settled_at=now(),
        )
        request = _locked(request_id)
        if not moved:
            raise AlreadyDecided(
                _("This request is %(state)s.") % {"state": request.get_state_display()},
                extra={"state": request.state},
            )
        audit.record(
            action=f"approvals.request.{outcome}",
            actor="system:agent",
            target=_target(request.pk),
            details={"action": request.action, "detail": detail},
        )
        _announce(signals.settled, request)
    return request


def _locked(request_id: UUID) -> ApprovalRequest:
    request: ApprovalRequest | None = (
        ApprovalRequest.objects.select_for_update(of=("self",)).filter(pk=request_id).first()
    )
    if request is None:
        raise not_found()
    return request


def _open_for_decision(request_id: UUID, principal: Principal) -> tuple[ApprovalRequest, int]:
    """The locked request, if ``principal`` may decide on it now."""
    request = _locked(request_id)
    if principal.tenant_id != request.tenant_id:
        raise not_found()  # rights are held over one tenant only
    user_id = decider_check(request=request, principal=principal)
    _refuse_decided(request)
    return request, user_id


def _refuse_decided(request: ApprovalRequest) -> None:
    state = request.effective_state
    if state == State.PENDING:
        return
    last = request.decisions.select_related("user").last()
    extra = _by(last, request) | {"state": state.value}
    raise AlreadyDecided(_("This request is %(state)s.") % {"state": state.label}, extra=extra)


def _by(decision: Decision | None, request: ApprovalRequest) -> JsonObject:
    """Who decided and when; the clock has no name."""
    if decision is None or request.effective_state == State.EXPIRED:
        return {"state": request.state, "decided_by": None, "decided_at": request.expires_at}
    by = decision.user.get_username() if decision.user else None
    return {"state": request.state, "decided_by": by, "decided_at": decision.created_at}


def _edit(
    request: ApprovalRequest, arguments: JsonObject | None, *, first: bool
) -> JsonObject | None:
    """The checked new arguments, or ``None`` when nothing differs from what is asked."""
    if arguments is None or arguments == request.effective_arguments:
        return None
    if request.gate == Gate.FAN:
        raise InvalidInput(_("arguments: a confirmation cannot change them."))
    if not first:
        raise InvalidInput(_("arguments: somebody has approved them as they are."))
    _refuse_unstorable(arguments)
    checked = port().check(request.action, arguments)
    return None if checked == request.effective_arguments else checked


def _end(
    request: ApprovalRequest,
    state: State,
    verb: Verb,
    *,
    actor: str,
    user_id: int | None,
    note: str = "",
) -> None:
    Decision.objects.create(request=request, user_id=user_id, verb=verb, note=note)
    audit.record(
        action=f"approvals.request.{state.value}",
        actor=actor,
        target=_target(request.pk),
        details=_described(request) | {"note": note},
    )
    _move(request, state)
    _announce(signals.decided, request)


def _move(request: ApprovalRequest, state: State) -> None:
    """Move the locked request; the lock has settled the race, the row count proves it."""
    decided_at = now()
    moved = transition(
        ApprovalRequest.objects.filter(pk=request.pk), REQUEST_STATES, state, decided_at=decided_at
    )
    if not moved:
        raise AlreadyDecided(_("This request was decided."), extra={"state": request.state})
    request.refresh_from_db()
    crash.point("decision_open", request.conversation_ref)
    transaction.on_commit(lambda: crash.point("decision_committed", request.conversation_ref))


def _expire(request_id: UUID, tenant_id: UUID) -> int:
    with tenant_scope(tenant_id), transaction.atomic():
        request = (
            ApprovalRequest.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(pk=request_id, state=State.PENDING)
            .first()
        )
        if request is None:
            return 0
        _end(request, State.EXPIRED, Verb.EXPIRE, actor=CLOCK, user_id=None)
        return 1


def _announce(signal: Signal, request: ApprovalRequest) -> None:
    """Tell the listeners after the commit; what one of them raises is logged and stops nobody."""
    message = {
        "request_id": request.pk,
        "tenant_id": request.tenant_id,
        "state": str(request.state),
        "gate": str(request.gate),
        "reference": dict(request.reference),
    }
    transaction.on_commit(lambda: _send(signal, message))


def _send(signal: Signal, message: JsonObject) -> None:
    signal.send_robust(sender=ApprovalRequest, **message)


def _described(request: ApprovalRequest) -> JsonObject:
    text = json.dumps(request.effective_arguments, sort_keys=True, ensure_ascii=False)
    return {
        "action": request.action,
        "gate": str(request.gate),
        "risk": request.risk,
        "rule": request.rule,
        "arguments_sha256": hashlib.sha256(text.encode()).hexdigest(),
        "binding_hash": request.binding_hash,
        "requested_for": request.requested_for_id,
    }


def _text(field: str, value: str) -> str:
    value = value.strip()
    if "\0" in value:
        raise InvalidInput(_("%(field)s: a NUL character cannot be stored.") % {"field": field})
    if len(value) > TEXT_MAX:
        raise InvalidInput(
            _("%(field)s: at most %(most)d characters.") % {"field": field, "most": TEXT_MAX}
        )
    return value


def _refuse_unstorable(arguments: JsonObject) -> None:
    """PostgreSQL keeps neither NUL, nor half a surrogate pair, nor numbers that are none."""
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        text.encode()
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_("arguments: not valid JSON.")) from error
    if "\\u0000" in text:
        raise InvalidInput(_("arguments: a NUL character cannot be stored."))


def _target(request_id: UUID) -> str:
    return f"approval:{request_id}"


def _uuid(value: str | None) -> UUID | None:
    return UUID(value) if value else None

"""Calls whose outcome nobody knows, before the people who find it out."""

from uuid import UUID

from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from boxoffice.common.exceptions import Conflict, Forbidden, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.principals import Principal
from tools.models import CallState, RemoteEffect, ToolCall
from tools.notes import note_checked
from tools.outcomes import sending_of
from tools.remote import Finding, Found, ask, conclude

OPERATOR = "system:operator"
DID_NOT_HAPPEN: JsonObject = {
    "code": "did_not_happen",
    "message": "A person of the box office has found that this was not done.",
    "retryable": False,
    "hint": "Nothing was changed. If it is still wanted, it may be asked for anew.",
}


class AlreadySettled(Conflict):
    """What became of the call is known by now."""

    code = "already_settled"


def unknown_calls() -> QuerySet[RemoteEffect]:
    """What waits for somebody to find out, longest first; in the open scope."""
    rows: QuerySet[RemoteEffect] = (
        RemoteEffect.objects.filter(call__state=CallState.UNKNOWN)
        .select_related("call__user", "call__approval", "tenant")
        .order_by("unknown_at", "id")
    )
    return rows


def call_settle(*, call_id: UUID, happened: bool, note: str, by: Principal | None) -> ToolCall:
    """Write down what a person has found out, once: the business rows and the fan's chat follow.

    ``by`` is ``None`` for the platform's operator at the command line. In the tenant's scope.
    Raises ``NotFound``, ``Forbidden`` without the right to configure or for the own call,
    ``InvalidInput`` for a note of fewer than three characters, and ``AlreadySettled`` when
    somebody else was first.
    """
    note = note_checked(note, hint=_("Say how you know."))
    found = Finding(found=Found.DONE, data={})
    if not happened:
        found = Finding(found=Found.REFUSED, data=DID_NOT_HAPPEN)
    with transaction.atomic():
        _open(call_id, by)
        call = conclude(call_id=call_id, finding=found, actor=_key(by), note=note)
        if call.state == CallState.UNKNOWN:
            raise Conflict(_("This does not fit what is written down of it; look at its order."))
    return call


def call_look_up(*, call_id: UUID, by: Principal | None) -> ToolCall:
    """Ask the other side once more what became of a call; it may stay unknown.

    ``call_ask`` and then ``call_heard``, which raise.
    """
    return call_heard(call_id=call_id, finding=call_ask(call_id=call_id, by=by), by=by)


def call_ask(*, call_id: UUID, by: Principal | None) -> Finding:
    """What the other side says now of a call whose outcome is unknown; nothing is written down.

    In the tenant's scope, and in no transaction (``RuntimeError``): no connection is kept while the
    other side is waited for. Raises as ``call_settle`` does, and ``Conflict`` when the tool has no
    lookup.
    """
    with transaction.atomic(durable=True):
        effect = _open(call_id, by)
    sending = sending_of(effect.call, effect, is_first=False)
    if sending.remote is None or sending.remote.lookup is None:
        raise Conflict(
            _("The other side offers no lookup; ask them, and write down what they say.")
        )
    connection.close()
    return async_to_sync(ask)(sending)


def call_heard(*, call_id: UUID, finding: Finding, by: Principal | None) -> ToolCall:
    """Write down what ``call_ask`` has found; a call that is settled by now stays as it is."""
    return conclude(call_id=call_id, finding=finding, actor=_key(by), note=_("looked up again"))


def effect_get(*, call_id: UUID, by: Principal) -> RemoteEffect:
    """A call that another party had a part in, known or not, for who may settle it.

    Raises ``NotFound``, to others too.
    """
    rows = RemoteEffect.objects.select_related("call__user", "call__approval")
    effect: RemoteEffect | None = rows.filter(call_id=call_id, tenant_id=by.tenant_id).first()
    if effect is None or not by.may("configure"):
        raise NotFound(_("There is no such call."))
    return effect


def _open(call_id: UUID, by: Principal | None) -> RemoteEffect:
    """The call, locked until the transaction ends, if it is still to be settled by this person."""
    call = ToolCall.objects.select_for_update(of=("self",)).filter(pk=call_id).first()
    effect: RemoteEffect | None = (
        RemoteEffect.objects.select_related("call").filter(call_id=call_id).first()
    )
    if call is None or effect is None or (by is not None and by.tenant_id != call.tenant_id):
        raise NotFound(_("There is no such call."))
    if by is not None and not by.may("configure"):
        raise Forbidden(_("You may not settle unknown outcomes."))
    if by is not None and by.user_id == call.user_id:
        raise Forbidden(_("This was asked for in your own name: somebody else has to settle it."))
    if call.state != CallState.UNKNOWN:
        raise AlreadySettled(
            _("What became of this is known by now: %(state)s.")
            % {"state": call.get_state_display()}
        )
    return effect


def _key(by: Principal | None) -> str:
    return OPERATOR if by is None else by.key

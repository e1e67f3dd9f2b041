"""Reading approval requests, each list in a fixed number of queries."""

from uuid import UUID

from django.db.models import Prefetch, Q, QuerySet
from django.utils.translation import gettext as _

from approvals.models import ApprovalRequest, Decision, Gate, State
from approvals.permissions import not_found
from boxoffice.common.clock import now
from boxoffice.common.exceptions import InvalidInput
from boxoffice.tenancy.principals import Principal


def inbox_list(
    *, principal: Principal, state: str | None = None, action: str | None = None
) -> QuerySet[ApprovalRequest]:
    """The reviewers' requests of the tenant, newest first; nothing for who may not review."""
    if not principal.may("review_actions"):
        return _rows().none()
    rows = _in_state(_rows().filter(gate=Gate.REVIEWER), state)
    if not action:
        return rows
    return rows.none() if "\0" in action else rows.filter(action=action)


def own_confirmations(
    *, principal: Principal, state: str | None = None
) -> QuerySet[ApprovalRequest]:
    """What waits (or waited) for this fan's own word, newest first."""
    if principal.user_id is None:
        return _rows().none()
    return _in_state(_rows().filter(gate=Gate.FAN, requested_for_id=principal.user_id), state)


def request_get(*, principal: Principal, request_id: UUID) -> ApprovalRequest:
    """A request that this principal may see: a reviewer's, or one made for them.

    Raises ``NotFound`` for anything else.
    """
    visible = Q(pk__in=[])
    if principal.user_id is not None:
        visible |= Q(requested_for_id=principal.user_id)
    if principal.may("review_actions"):
        visible |= Q(gate=Gate.REVIEWER)
    request: ApprovalRequest | None = _rows().filter(visible, pk=request_id).first()
    if request is None:
        raise not_found()
    return request


def actions_seen(*, principal: Principal) -> list[str]:
    """The names of actions that reviewers of this tenant have been asked about."""
    rows = inbox_list(principal=principal).order_by("action")
    return list(rows.values_list("action", flat=True).distinct())


def decision_of(request: ApprovalRequest) -> Decision | None:
    """The last word on a request whose decisions were fetched with it."""
    decisions = list(request.decisions.all())
    return decisions[-1] if decisions else None


def _rows() -> QuerySet[ApprovalRequest]:
    decisions = Decision.objects.select_related("user").order_by("id")
    rows: QuerySet[ApprovalRequest] = (
        ApprovalRequest.objects.select_related("requested_for")
        .prefetch_related(Prefetch("decisions", queryset=decisions))
        .order_by("-id")
    )
    return rows


def _in_state(rows: QuerySet[ApprovalRequest], state: str | None) -> QuerySet[ApprovalRequest]:
    """Narrow to a state as readers see it: what is past its time counts as expired."""
    if not state:
        return rows
    if state not in State.values:
        known = ", ".join(State.values)
        raise InvalidInput(_("state: one of %(known)s.") % {"known": known})
    late = Q(state=State.PENDING, expires_at__lte=now())
    if state == State.PENDING:
        return rows.filter(state=State.PENDING).exclude(late)
    if state == State.EXPIRED:
        return rows.filter(Q(state=State.EXPIRED) | late)
    return rows.filter(state=state)

"""Who decides on a request."""

from django.utils.translation import gettext as _

from approvals.exceptions import FourEyes
from approvals.models import ApprovalRequest, Gate
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.tenancy.models import User
from boxoffice.tenancy.principals import Principal


def not_found() -> NotFound:
    """The one answer about a request that is not there, or not the asker's to see."""
    return NotFound(_("No such approval request."))


def decider_check(*, request: ApprovalRequest, principal: Principal) -> int:
    """The id of the user who may decide, whatever the request's state is.

    Raises ``NotFound`` for whom the request is not, and ``FourEyes`` at a reviewer's gate for the
    person for whom it was asked, under a second account with the same address too.
    """
    if principal.user_id is None:
        raise not_found()
    is_asker = principal.user_id == request.requested_for_id
    if request.gate == Gate.FAN:
        if not is_asker:
            raise not_found()
    elif is_asker:
        raise FourEyes(_("You cannot decide on what was asked for you."))
    elif not principal.may("review_actions"):
        raise not_found()
    elif _is_same_person(principal.user_id, request.requested_for_id):
        raise FourEyes(_("You cannot decide on what was asked under your own e-mail address."))
    return principal.user_id


def decider_refusal(*, request: ApprovalRequest, principal: Principal) -> str:
    """Why this principal may not decide; empty when they may."""
    try:
        decider_check(request=request, principal=principal)
    except BoxOfficeError as error:
        return error.message
    return ""


def _is_same_person(one_id: int, other_id: int | None) -> bool:
    """Whether two accounts carry the same address: a second account is no second pair of eyes."""
    if other_id is None:
        return False
    addresses = dict(User.objects.filter(pk__in=[one_id, other_id]).values_list("pk", "email"))
    one = addresses.get(one_id, "").strip().lower()
    return bool(one) and one == addresses.get(other_id, "").strip().lower()

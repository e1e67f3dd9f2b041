"""May somebody say something now? The rate of their tier, asked before the message's transaction.

One bucket for each person, one for all members of a tenant, and one for all its visitors: those
are not known, and must not take the members' turn. The same message sent again is not counted.
"""

import math
from uuid import UUID, uuid4

from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from boxoffice.common import limits
from boxoffice.common.exceptions import Forbidden, TooMany
from boxoffice.common.limits import Bucket
from boxoffice.common.valkey import ValkeyAway, ask_now
from boxoffice.tenancy.principals import Principal

UNCOUNTED_SECONDS = 60


def message_admit(*, principal: Principal, conversation_id: UUID | None, key: str | None) -> None:
    """Take one message from the principal's buckets.

    ``key`` names the message in its conversation (``None``: one that it opens), if it has a name.

    Raises ``TooMany`` when they are empty. Without Valkey, ``WITHOUT_VALKEY`` says what holds.
    """
    if principal.rate_per_min < 1:
        raise Forbidden(_("This plan does not include messages."))
    tag = f"bo:{{{principal.tenant_id}}}"
    everybody = "visitors" if principal.is_anonymous else "members"
    most = {"visitors": settings.VISITORS_RATE_PER_MIN, "members": settings.TENANT_RATE_PER_MIN}
    buckets = [
        Bucket.per_minute_of(f"{tag}:messages:{principal.key}", principal.rate_per_min),
        Bucket.per_minute_of(f"{tag}:messages:{everybody}", most[everybody]),
    ]
    once = f"{tag}:said:{principal.key}:{conversation_id}:{key or uuid4()}"
    try:
        entry = limits.entered(ask_now(limits.enter(once=once, buckets=buckets)))
    except ValkeyAway:
        if settings.WITHOUT_VALKEY["messages"] == "closed":
            raise TooMany(
                _("Messages cannot be taken for the moment; please try again in a minute."),
                retry_after=UNCOUNTED_SECONDS,
            ) from None
        return
    if entry.empty is not None:
        raise _too_many(entry.empty, max(1, math.ceil(entry.wait_s)))


def _too_many(bucket: int, seconds: int) -> TooMany:
    wait = ngettext(
        "Please try again in %(seconds)d second.",
        "Please try again in %(seconds)d seconds.",
        seconds,
    ) % {"seconds": seconds}
    why = (
        _("You have sent many messages in a short time.")
        if bucket == 0
        else _("Very many people are writing to us at this moment.")
    )
    return TooMany(f"{why} {wait}", retry_after=seconds)

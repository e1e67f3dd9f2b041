"""The compiled rules of a version, kept in the process: a version that is in use never changes.

Which versions are in use travels with the query for the caller's grant, so a version takes effect
on the next call, in every process.
"""

import logging
from collections import OrderedDict
from threading import Lock
from uuid import UUID

from approvals.models import PolicyVersion
from approvals.policies.rules import ANY, Effect, Policy, Rule, policy_make

logger = logging.getLogger(__name__)

KEPT = 500
_kept: OrderedDict[UUID, Policy] = OrderedDict()
_lock = Lock()


def policy_of(version_id: UUID) -> Policy:
    """The compiled rules of a version that is in use; one query, the first time.

    Rules that cannot be loaded gate every call.
    """
    with _lock:
        found = _kept.get(version_id)
        if found is not None:
            _kept.move_to_end(version_id)
            return found
    made = _load(version_id)
    with _lock:
        _kept[version_id] = made
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return made


def policies_forget() -> None:
    """Forget all compiled rules; for tests."""
    with _lock:
        _kept.clear()


def _load(version_id: UUID) -> Policy:
    version = PolicyVersion.objects.get(pk=version_id)
    try:
        rules = [Rule.from_data(data) for data in version.rules]
    except (KeyError, TypeError, ValueError):
        logger.exception("the rules of %s cannot be read: every call is gated", version.pk)
        rules = [Rule(name="unreadable", tools=(ANY,), when="", effect=Effect.APPROVE)]
    return policy_make(version.label, rules)

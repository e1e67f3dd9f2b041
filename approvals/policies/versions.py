"""Writing rules, trying them in shadow, putting them in force, taking them back."""

import difflib
import hashlib
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Max, QuerySet
from django.utils.translation import gettext as _

from approvals.models import POLICY_STATES, PolicyState, PolicyVersion
from approvals.policies.checks import rules_check
from approvals.policies.document import Problem, RulesInvalid
from boxoffice.audit import services as audit
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Conflict, InvalidInput, NotFound
from boxoffice.common.transitions import transition
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.scope import current_tenant_id

NOTE_MAX = 500
COMMAND = "system:command"


class PolicyMoved(Conflict):
    """The version is no longer in the state that this needs, or no longer what was looked at."""

    code = "policy_moved"
    hint = "Look at the versions again."


def version_get(number: int) -> PolicyVersion:
    """A version of the open tenant. Raises ``NotFound``."""
    found: PolicyVersion | None = PolicyVersion.objects.filter(number=number).first()
    if found is None:
        raise NotFound(_("There is no version %(number)d.") % {"number": number})
    return found


def version_in(state: PolicyState) -> PolicyVersion | None:
    """The version in force, or in shadow, of the open tenant."""
    return PolicyVersion.objects.filter(state=state).first()


def draft_create(
    *, source: str, note: str = "", by: User | None = None, copied_from: int | None = None
) -> PolicyVersion:
    """Write a new draft in the open tenant. Raises ``RulesInvalid``."""
    rules, _warnings = rules_check(source)
    with transaction.atomic():
        _lock()
        last = PolicyVersion.objects.aggregate(last=Max("number"))["last"] or 0
        version: PolicyVersion = PolicyVersion.objects.create(
            number=last + 1,
            source=source,
            rules=[rule.as_data() for rule in rules],
            note=_note(note),
            author=by,
            copied_from=copied_from,
        )
        _record("drafted", version, by)
    return version


def draft_change(
    *,
    version_id: UUID,
    source: str,
    note: str,
    by: User | None = None,
    seen: datetime | None = None,
) -> PolicyVersion:
    """Rewrite a draft; ``seen`` is the ``changed_at`` of what its author had before them.

    Raises ``RulesInvalid``, and ``PolicyMoved`` when it is no draft any more or somebody else has
    changed it since.
    """
    rules, _warnings = rules_check(source)
    with transaction.atomic():
        _lock()
        version = _found(version_id)
        if version.state != PolicyState.DRAFT:
            raise _moved(version)
        _check_seen(version, seen)
        _rows(version_id).update(
            source=source,
            rules=[rule.as_data() for rule in rules],
            note=_note(note),
            changed_at=now(),
        )
        version = _found(version_id)
        _record("changed", version, by)
    return version


def draft_copy(*, version_id: UUID, note: str = "", by: User | None = None) -> PolicyVersion:
    """A new draft with the rules of another version: to change them, or to go back to them."""
    old = _found(version_id)
    return draft_create(source=old.source, note=note, by=by, copied_from=old.number)


def version_shadow(
    *, version_id: UUID, by: User | None = None, seen: datetime | None = None
) -> PolicyVersion:
    """Let a draft be evaluated beside the version in force, without effect.

    The one that was in shadow before is retired. ``seen`` is the ``changed_at`` of what was looked
    at. Raises ``RulesInvalid`` when tiers or tools have changed since the draft was written, and
    ``PolicyMoved``, also when the draft was changed since it was looked at.
    """
    return _bring(version_id, PolicyState.SHADOW, by, seen)


def version_activate(
    *, version_id: UUID, by: User | None = None, seen: datetime | None = None
) -> PolicyVersion:
    """Put a version in force, from the next call on; the one before it is retired.

    ``seen`` and what it raises are as in ``version_shadow``.
    """
    return _bring(version_id, PolicyState.ACTIVE, by, seen)


def version_retire(*, version_id: UUID, by: User | None = None) -> PolicyVersion:
    """End a version; when it was in force, what is built in decides. Raises ``PolicyMoved``."""
    with transaction.atomic():
        _lock()
        version = _found(version_id)
        _move(version, PolicyState.RETIRED, by)
    return _found(version_id)


def versions_diff(old: PolicyVersion | None, new: PolicyVersion) -> list[str]:
    """The lines that differ, with three around them; empty when nothing does."""
    return list(
        difflib.unified_diff(
            old.source.splitlines() if old else [],
            new.source.splitlines(),
            fromfile=old.label if old else "—",
            tofile=new.label,
            lineterm="",
        )
    )


def version_problems(version: PolicyVersion) -> list[Problem]:
    """What is wrong with a version by now, warnings included: tiers and tools change."""
    try:
        return rules_check(version.source)[1]
    except RulesInvalid as error:
        return error.problems


def version_check(version: PolicyVersion, state: PolicyState) -> None:
    """Whether a version may be brought there, as things stand now.

    Raises ``PolicyMoved``, and ``RulesInvalid`` when its rules fit no more. To end a version its
    rules need not fit.
    """
    if version.state not in POLICY_STATES.sources(state):
        raise _moved(version)
    if state != PolicyState.RETIRED:
        rules_check(version.source)


def _bring(
    version_id: UUID, state: PolicyState, by: User | None, seen: datetime | None
) -> PolicyVersion:
    with transaction.atomic():
        _lock()
        version = _found(version_id)
        version_check(version, state)
        _check_seen(version, seen)
        before = version_in(state)
        if before is not None:
            _move(before, PolicyState.RETIRED, by)
        _move(version, state, by)
    return _found(version_id)


_STAMPS = {
    PolicyState.SHADOW: "shadowed_at",
    PolicyState.ACTIVE: "activated_at",
    PolicyState.RETIRED: "retired_at",
}
_VERBS = {
    PolicyState.SHADOW: "shadowed",
    PolicyState.ACTIVE: "activated",
    PolicyState.RETIRED: "retired",
}


def _move(version: PolicyVersion, state: PolicyState, by: User | None) -> None:
    stamp: JsonObject = {_STAMPS[state]: now()}
    if not transition(_rows(version.pk), POLICY_STATES, state, **stamp):
        raise _moved(version)
    _record(_VERBS[state], version, by)


def _lock() -> None:
    """One change of a tenant's versions at a time; calls that refer to the tenant go on."""
    Tenant.objects.select_for_update(no_key=True).get(pk=current_tenant_id())


def _rows(version_id: UUID) -> QuerySet[PolicyVersion]:
    return PolicyVersion.objects.filter(pk=version_id)


def _found(version_id: UUID) -> PolicyVersion:
    version = _rows(version_id).first()
    if version is None:
        raise NotFound(_("There is no such version."))
    return version


def _check_seen(version: PolicyVersion, seen: datetime | None) -> None:
    if seen is not None and version.changed_at != seen:
        said = _("Version %(number)d was changed meanwhile: look at it again.")
        raise PolicyMoved(said % {"number": version.number})


def _moved(version: PolicyVersion) -> PolicyMoved:
    said = _("Version %(number)d is %(state)s.")
    return PolicyMoved(said % {"number": version.number, "state": version.get_state_display()})


def _note(note: str) -> str:
    note = note.strip()
    if len(note) > NOTE_MAX or "\0" in note:
        raise InvalidInput(_("note: at most %(most)d characters.") % {"most": NOTE_MAX})
    return note


def _record(verb: str, version: PolicyVersion, by: User | None) -> None:
    audit.record(
        action=f"approvals.policy.{verb}",
        actor=f"user:{by.pk}" if by else COMMAND,
        target=version.label,
        details={
            "rules": len(version.rules),
            "sha256": hashlib.sha256(version.source.encode()).hexdigest(),
            "note": version.note,
            "copied_from": version.copied_from,
        },
    )

"""Versions: numbers, states, what never changes, one in force, whoever races."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import connection, transaction
from django.db.utils import IntegrityError

from approvals.models import PolicyState, PolicyVersion
from approvals.policies import versions
from approvals.policies.document import RulesInvalid
from boxoffice.audit.models import AuditRecord
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.tenancy.models import Tier
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast

RULES = "- {name: r, tools: [refund_order], tiers: [pro], when: 'true', effect: deny}\n"


def test_drafts_are_numbered_per_tenant(cast: Cast) -> None:
    with tenant_scope(cast.arena.pk):
        numbers = [versions.draft_create(source=RULES, by=cast.ada).number for _ in range(2)]
    with tenant_scope(cast.teatro.pk):
        assert versions.draft_create(source=RULES).number == 1
    assert numbers == [1, 2]


def test_a_draft_with_a_fault_is_not_stored(cast: Cast, in_arena: None) -> None:
    with pytest.raises(RulesInvalid):
        versions.draft_create(source=RULES.replace("pro", "gold"))
    draft = versions.draft_create(source=RULES)
    with pytest.raises(RulesInvalid):
        versions.draft_change(version_id=draft.pk, source="rules: [", note="")
    draft.refresh_from_db()
    assert draft.source == RULES


def test_the_way_of_a_version_is_recorded(cast: Cast, in_arena: None) -> None:
    draft = versions.draft_create(source=RULES, note="first", by=cast.ada)
    versions.draft_change(version_id=draft.pk, source="", note="none", by=cast.ada)
    versions.version_shadow(version_id=draft.pk, by=cast.ada)
    versions.version_activate(version_id=draft.pk, by=cast.ada)
    done = versions.version_retire(version_id=draft.pk)
    assert done.state == "retired"
    assert done.shadowed_at < done.activated_at < done.retired_at
    rows = AuditRecord.objects.filter(target="policy:1").order_by("sequence")
    assert [row.action.removeprefix("approvals.policy.") for row in rows] == [
        "drafted",
        "changed",
        "shadowed",
        "activated",
        "retired",
    ]
    assert {row.actor for row in rows} == {f"user:{cast.ada.pk}", "system:command"}


def test_one_is_in_force_and_one_in_shadow(cast: Cast, in_arena: None) -> None:
    first, second, third = (versions.draft_create(source=RULES) for _ in range(3))
    versions.version_activate(version_id=first.pk)
    versions.version_activate(version_id=second.pk)
    versions.version_shadow(version_id=third.pk)
    states = dict(PolicyVersion.objects.values_list("number", "state"))
    assert states == {1: "retired", 2: "active", 3: "shadow"}
    versions.version_activate(version_id=third.pk)
    states = dict(PolicyVersion.objects.values_list("number", "state"))
    assert states == {1: "retired", 2: "retired", 3: "active"}


@pytest.mark.parametrize("act", ["version_shadow", "version_activate", "version_retire"])
def test_what_is_retired_stays_so(cast: Cast, in_arena: None, act: str) -> None:
    draft = versions.draft_create(source=RULES)
    versions.version_retire(version_id=draft.pk)
    with pytest.raises(versions.PolicyMoved):
        getattr(versions, act)(version_id=draft.pk)


def test_only_a_draft_is_rewritten(cast: Cast, in_arena: None) -> None:
    draft = versions.draft_create(source=RULES)
    versions.version_activate(version_id=draft.pk)
    with pytest.raises(versions.PolicyMoved):
        versions.draft_change(version_id=draft.pk, source="", note="")


@pytest.mark.parametrize("act", ["version_shadow", "version_activate"])
def test_a_draft_that_was_changed_since_it_was_looked_at_stays_one(
    cast: Cast, in_arena: None, act: str
) -> None:
    draft = versions.draft_create(source=RULES)
    seen = draft.changed_at
    changed = versions.draft_change(version_id=draft.pk, source="rules: []", note="", seen=seen)
    with pytest.raises(versions.PolicyMoved, match="changed meanwhile"):
        getattr(versions, act)(version_id=draft.pk, seen=seen)
    draft.refresh_from_db()
    assert draft.state == "draft"
    getattr(versions, act)(version_id=draft.pk, seen=changed.changed_at)


def test_nobody_writes_over_what_they_have_not_seen(cast: Cast, in_arena: None) -> None:
    draft = versions.draft_create(source=RULES)
    seen = draft.changed_at
    versions.draft_change(version_id=draft.pk, source="rules: []", note="first", seen=seen)
    with pytest.raises(versions.PolicyMoved, match="changed meanwhile"):
        versions.draft_change(version_id=draft.pk, source=RULES, note="second", seen=seen)
    draft.refresh_from_db()
    assert draft.note == "first"


def test_going_back_is_a_copy(cast: Cast, in_arena: None) -> None:
    first = versions.draft_create(source=RULES)
    versions.version_activate(version_id=first.pk)
    second = versions.draft_create(source="rules: []")
    versions.version_activate(version_id=second.pk)
    again = versions.draft_copy(version_id=first.pk, by=cast.ada)
    assert (again.number, again.copied_from, again.source) == (3, 1, RULES)
    diff = versions.versions_diff(second, again)
    assert diff[:2] == ["--- policy:2", "+++ policy:3"]
    assert "+" + RULES.rstrip("\n") in diff
    assert versions.versions_diff(first, again) == []


def test_what_fits_no_more_is_not_put_in_force(cast: Cast, in_arena: None) -> None:
    draft = versions.draft_create(source=RULES)
    Tier.objects.filter(slug="pro").update(slug="gold")
    with pytest.raises(RulesInvalid, match="no tier"):
        versions.version_activate(version_id=draft.pk)
    assert [str(one) for one in versions.version_problems(draft)]


def test_a_version_of_another_tenant_does_not_exist(cast: Cast) -> None:
    with tenant_scope(cast.arena.pk):
        draft = versions.draft_create(source=RULES)
    with tenant_scope(cast.teatro.pk):
        for act in (versions.version_shadow, versions.version_activate, versions.version_retire):
            with pytest.raises(NotFound):
                act(version_id=draft.pk)
        with pytest.raises(NotFound):
            versions.draft_copy(version_id=draft.pk)


@pytest.mark.parametrize(
    "change",
    [
        "source = 'rules: []'",
        "rules = '[]'",
        "note = 'other'",
        "number = 9",
        "author_id = NULL",
        "state = 'draft'",
    ],
)
def test_the_database_keeps_what_verdicts_name(cast: Cast, in_arena: None, change: str) -> None:
    draft = versions.draft_create(source=RULES, by=cast.ada)
    versions.version_activate(version_id=draft.pk)
    for statement in (
        f"UPDATE approvals_policyversion SET {change} WHERE id = %s",
        "DELETE FROM approvals_policyversion WHERE id = %s",
    ):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [draft.pk])


def test_the_database_allows_one_in_force(cast: Cast, in_arena: None) -> None:
    first, second = (versions.draft_create(source=RULES) for _ in range(2))
    versions.version_activate(version_id=first.pk)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE approvals_policyversion SET state = 'active' WHERE id = %s", [second.pk]
        )


@pytest.mark.django_db(transaction=True)
def test_of_many_who_activate_at_once_one_version_is_left_in_force(cast: Cast) -> None:
    with tenant_scope(cast.arena.pk):
        drafts = [versions.draft_create(source=RULES).pk for _ in range(4)]
    start = Barrier(8)

    def at_once(work: Callable[[], object]) -> str:
        start.wait(30)
        try:
            with tenant_scope(cast.arena.pk):
                work()
        except BoxOfficeError as error:
            return error.code
        finally:
            connection.close()
        return "done"

    def activate(number: int) -> Callable[[], object]:
        return lambda: versions.version_activate(version_id=drafts[number])

    def draft() -> object:
        return versions.draft_create(source=RULES)

    work = [activate(0), activate(0), *map(activate, range(1, 4)), draft, draft, draft]
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(at_once, work))
    assert sorted(said[:2]) == ["done", "policy_moved"]
    assert said[2:] == ["done"] * 6
    with tenant_scope(cast.arena.pk):
        rows = PolicyVersion.objects.order_by("number")
        assert [row.number for row in rows] == list(range(1, 8))
        states = sorted(row.state for row in rows)
        assert states == ["active", "draft", "draft", "draft", "retired", "retired", "retired"]
        assert versions.version_in(PolicyState.ACTIVE) is not None


@pytest.mark.django_db(transaction=True)
def test_of_many_who_rewrite_a_draft_at_once_one_is_kept(cast: Cast) -> None:
    with tenant_scope(cast.arena.pk):
        draft = versions.draft_create(source=RULES)
    start = Barrier(6)

    def rewrite(number: int) -> str:
        start.wait(30)
        try:
            with tenant_scope(cast.arena.pk):
                versions.draft_change(
                    version_id=draft.pk, source=RULES, note=str(number), seen=draft.changed_at
                )
        except BoxOfficeError as error:
            return error.code
        finally:
            connection.close()
        return str(number)

    with ThreadPoolExecutor(6) as pool:
        said = sorted(pool.map(rewrite, range(6)))
    assert said[1:] == ["policy_moved"] * 5
    with tenant_scope(cast.arena.pk):
        assert PolicyVersion.objects.get(pk=draft.pk).note == said[0]
        assert AuditRecord.objects.filter(action="approvals.policy.changed").count() == 1

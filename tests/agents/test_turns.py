"""Whose turn it is: shares, caps, and nobody who waits for ever."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import checkpoints, leases, recovery
from agents.leases import Lease
from agents.models import Conversation, Run, RunState
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import operator_scope, tenant_scope
from tests.support.cast import Cast

PER_PERSON = 2
TENANTS = 3
PEOPLE = ("user:1", "user:2", "visitor:a", "visitor:b", "visitor:c")


def claim(**narrowed: Any) -> Lease | None:
    """What a worker with a free slot gets."""
    with operator_scope("test"):
        return leases.run_claim(owner="worker", **narrowed)


def claimed(**narrowed: Any) -> Lease:
    """The same, when there must be one."""
    lease = claim(**narrowed)
    assert lease is not None
    return lease


def finish(lease: Lease) -> None:
    """The run's worker is through with it."""
    with tenant_scope(lease.tenant_id):
        checkpoints.run_end(lease=lease, state=RunState.CANCELLED, answer="")


def set_tenant(cast: Cast, **changes: int) -> None:
    Tenant.objects.filter(pk=cast.tenant.pk).update(**changes)


def visitors(cast: Cast, count: int) -> list[Run]:
    """Runs of as many visitors."""
    runs = []
    for number in range(count):
        principal = cast.visitor()
        object.__setattr__(principal, "visitor", f"{number:032d}")
        runs.append(cast.post_as(principal, "oi"))
    return runs


@pytest.fixture(autouse=True)
def nobody_is_woken(handed_out: list[UUID]) -> None:
    """No worker but the test's own."""


def test_a_newcomer_goes_before_a_rush(arena: Cast, teatro: Cast) -> None:
    rush = [arena.post("ana", "oi") for _ in range(4)]
    assert claimed().run_id == rush[0].pk
    late = teatro.post("teo", "oi")
    assert claimed().run_id == late.pk
    assert claimed().run_id == rush[1].pk


def test_twice_the_share_gets_twice_as_many_at_once(arena: Cast, teatro: Cast) -> None:
    set_tenant(arena, share=20)
    for _ in range(6):
        arena.post("ana", "oi")
        teatro.post("teo", "oi")
    of = Counter(claimed().tenant_id for _ in range(6))
    assert of == {arena.tenant.pk: 4, teatro.tenant.pk: 2}


def test_a_tenant_at_its_cap_waits_and_leaves_the_slot_to_another(
    arena: Cast, teatro: Cast
) -> None:
    set_tenant(arena, max_concurrent_runs=2, share=1000)
    runs = [arena.post("ana", "oi") for _ in range(4)]
    other = [teatro.post("teo", "oi") for _ in range(2)]
    taken = [claimed() for _ in range(4)]
    assert {lease.run_id for lease in taken} == {run.pk for run in [*runs[:2], *other]}
    assert claim() is None
    finish(next(lease for lease in taken if lease.tenant_id == arena.tenant.pk))
    assert claimed().run_id == runs[2].pk


def test_a_lowered_cap_ends_nothing_and_begins_nothing(arena: Cast) -> None:
    for _ in range(4):
        arena.post("ana", "oi")
    taken = [claimed() for _ in range(3)]
    set_tenant(arena, max_concurrent_runs=1)
    for lease in taken:
        assert arena.run(lease.run_id).state == RunState.RUNNING
        assert claim() is None
        finish(lease)
    assert claim() is not None


def test_one_person_has_only_so_many_at_work(arena: Cast, settings: Any) -> None:
    settings.RUNS_PER_PERSON = PER_PERSON
    mine = [arena.post("ana", "oi") for _ in range(3)]
    other = arena.post("fabio", "oi")
    assert [claimed().run_id for _ in range(3)] == [mine[0].pk, mine[1].pk, other.pk]
    assert claim() is None


def test_a_flood_of_visitors_leaves_half_to_those_who_signed_in(arena: Cast) -> None:
    set_tenant(arena, max_concurrent_runs=4)
    flood = visitors(arena, 5)
    late = [arena.post("ana", "oi"), arena.post("fabio", "oi")]
    taken = [claimed().run_id for _ in range(4)]
    assert taken == [flood[0].pk, flood[1].pk, late[0].pk, late[1].pk]
    assert claim() is None


def test_visitors_have_a_turn_where_only_one_answer_is_worked_on(arena: Cast) -> None:
    set_tenant(arena, max_concurrent_runs=1)
    (run,) = visitors(arena, 1)
    assert claimed().run_id == run.pk


def test_the_last_slots_are_kept_for_tenants_with_nothing_at_work(
    arena: Cast, teatro: Cast
) -> None:
    first, _ = arena.post("ana", "oi"), arena.post("ana", "oi")
    assert claimed(is_scarce=True).run_id == first.pk
    assert claim(is_scarce=True) is None
    newcomer = teatro.post("teo", "oi")
    assert claimed(is_scarce=True).run_id == newcomer.pk


def test_a_run_that_somebody_is_changing_holds_nobody_up(arena: Cast, teatro: Cast) -> None:
    runs = [arena.post("ana", "oi"), arena.post("fabio", "oi"), teatro.post("teo", "oi")]
    taken: list[UUID] = []

    def others() -> None:
        try:
            while (lease := claim()) is not None:
                taken.append(lease.run_id)
        finally:
            connection.close()

    with arena.scope(), transaction.atomic():
        Run.objects.select_for_update().get(pk=runs[0].pk)
        worker = threading.Thread(target=others)
        worker.start()
        worker.join(20)
        assert not worker.is_alive()
    assert set(taken) == {runs[1].pk, runs[2].pk}
    assert claimed().run_id == runs[0].pk


def test_a_cancelled_run_and_a_busy_conversation_are_passed_over(arena: Cast) -> None:
    conversation = arena.conversation("ana")
    first = arena.post("ana", "oi", conversation)
    assert claimed().run_id == first.pk
    with arena.scope():
        second = Run.objects.create(
            conversation=conversation,
            model="m",
            tier="pro",
            max_steps=1,
            max_output_tokens=1,
            max_wall_seconds=1,
            max_cost_micros=1,
        )
    assert claim() is None
    assert claim(run_id=second.pk) is None
    finish(Lease(**lease_of(arena, first)))
    assert claimed().run_id == second.pk


def lease_of(cast: Cast, run: Run) -> dict[str, Any]:
    row = cast.run(run.pk)
    return {
        "run_id": row.pk,
        "tenant_id": row.tenant_id,
        "conversation_id": row.conversation_id,
        "epoch": row.lease_epoch,
        "seq": row.last_seq,
        "event_seq": row.event_seq,
        "worked_since": 0.0,
    }


def test_no_cap_is_passed_when_many_workers_claim_at_once(arena: Cast, teatro: Cast) -> None:
    caps = {arena.tenant.pk: 5, teatro.tenant.pk: 3}
    set_tenant(arena, max_concurrent_runs=5)
    set_tenant(teatro, max_concurrent_runs=3)
    for _ in range(10):
        arena.post("ana", "oi")
        teatro.post("teo", "oi")
    start = threading.Barrier(8)

    def work(_: int) -> list[Lease]:
        try:
            start.wait(20)
            return [lease for lease in (claim() for _ in range(3)) if lease is not None]
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as workers:
        taken = [lease for got in workers.map(work, range(8)) for lease in got]
    assert len({lease.run_id for lease in taken}) == len(taken)
    assert Counter(lease.tenant_id for lease in taken) == caps


@dataclass
class Line:
    """The rule, said once more: what is queued and at work, and who must be next."""

    shares: list[int]
    caps: list[int]
    queued: list[tuple[int, str, UUID]] = field(default_factory=list)
    at_work: list[tuple[int, str, Lease]] = field(default_factory=list)

    def load(self, tenant: int, person: str = "") -> int:
        return sum(t == tenant and p.startswith(person) for t, p, _ in self.at_work)

    def may(self, tenant: int, person: str) -> bool:
        if self.load(tenant) >= self.caps[tenant]:
            return False
        if sum((t, p) == (tenant, person) for t, p, _ in self.at_work) >= PER_PERSON:
            return False
        most = max(1, self.caps[tenant] // 2)
        return person.startswith("user") or self.load(tenant, "visitor") < most

    def next(self) -> UUID | None:
        able = [(t, run) for t, p, run in self.queued if self.may(t, p)]
        return min(
            able,
            key=lambda one: (self.load(one[0]) / self.shares[one[0]], one[1]),
            default=(0, None),
        )[1]


@pytest.fixture
def tenants(transactional_db: None) -> Iterator[list[Tenant]]:
    """Tenants with an owner for all conversations of each person."""
    yield [Tenant.objects.create(slug=f"t{n}", name=f"t{n}") for n in range(TENANTS)]


@contextmanager
def emptied() -> Iterator[None]:
    with operator_scope("test"):
        Conversation.objects.all().delete()
    yield


def queue(tenant: Tenant, person: str) -> UUID:
    with tenant_scope(tenant.pk):
        conversation = Conversation.objects.create(visitor=person)
        run = Run.objects.create(
            conversation=conversation,
            asked_by=person,
            is_anonymous=person.startswith("visitor"),
            model="m",
            tier="pro",
            max_steps=1,
            max_output_tokens=1,
            max_wall_seconds=1,
            max_cost_micros=1,
        )
    return run.pk


@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    shares=st.lists(st.integers(1, 4), min_size=TENANTS, max_size=TENANTS),
    caps=st.lists(st.integers(1, 5), min_size=TENANTS, max_size=TENANTS),
    moves=st.lists(
        st.one_of(
            st.tuples(st.just("ask"), st.integers(0, TENANTS - 1), st.sampled_from(PEOPLE)),
            st.tuples(st.just("claim"), st.just(0), st.just("")),
            st.tuples(st.just("finish"), st.integers(0, 20), st.just("")),
        ),
        max_size=30,
    ),
)
def test_every_claim_is_the_one_that_the_rule_names_and_all_come_to_their_turn(
    tenants: list[Tenant],
    settings: Any,
    shares: list[int],
    caps: list[int],
    moves: list[tuple[str, int, str]],
) -> None:
    settings.RUNS_PER_PERSON = PER_PERSON
    line = Line(shares, caps)
    with emptied():
        for tenant, share, cap in zip(tenants, shares, caps, strict=True):
            Tenant.objects.filter(pk=tenant.pk).update(share=share, max_concurrent_runs=cap)
        for move, number, person in moves:
            if move == "ask":
                line.queued.append((number, person, queue(tenants[number], person)))
            elif move == "claim":
                claims_as_the_rule_says(line)
            elif line.at_work:
                _, _, lease = line.at_work.pop(number % len(line.at_work))
                drop(lease)
        while line.queued or line.at_work:  # nobody asks any more: all must get their turn
            while claims_as_the_rule_says(line):
                pass
            assert line.at_work, "those who wait would wait for ever"
            drop(line.at_work.pop(0)[2])


def claims_as_the_rule_says(line: Line) -> bool:
    expected, lease = line.next(), claim()
    assert (lease.run_id if lease else None) == expected
    if lease is None:
        return False
    (entry,) = [one for one in line.queued if one[2] == lease.run_id]
    line.queued.remove(entry)
    line.at_work.append((entry[0], entry[1], lease))
    assert line.load(entry[0]) <= line.caps[entry[0]]
    return True


def drop(lease: Lease) -> None:
    """The end of a run that has no step: all that the line sees of it."""
    with tenant_scope(lease.tenant_id):
        Run.objects.filter(pk=lease.run_id).delete()


def woken() -> list[UUID]:
    taken: list[UUID] = []
    recovery.sweep(lambda tenant_id, run_id: taken.append(run_id))
    return taken


def test_the_sweep_wakes_for_no_more_than_may_begin(arena: Cast, teatro: Cast) -> None:
    set_tenant(arena, max_concurrent_runs=3)
    runs = [arena.post("ana", "oi") for _ in range(5)]
    other = teatro.post("teo", "oi")
    claimed(run_id=runs[0].pk)
    with operator_scope("test"):
        Run.objects.update(handed_out_at=None)  # as if every wake-up was lost
    assert set(woken()) == {runs[1].pk, runs[2].pk, other.pk}
    assert woken() == []  # for some seconds


def test_a_fan_whose_answer_has_not_begun_is_told_once(
    arena: Cast, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[UUID, str]] = []
    monkeypatch.setattr(
        "agents.notices.stream.publish",
        lambda *, run_id, events, **about: told.append((run_id, events[0]["type"])) or 1,
    )
    at_work, waits = arena.post("ana", "oi"), arena.post("ana", "oi")
    claimed(run_id=at_work.pk)
    woken()
    assert told == []  # not at once
    settings.IN_LINE_SECONDS = 0
    woken()
    woken()
    assert told == [(waits.pk, "run.in_line")]

"""The chain of seals: nothing is left out of it, and nothing can be changed behind it."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from boxoffice.audit import chain, services, tasks
from boxoffice.audit.models import AuditRecord, AuditSeal
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from tests.audit.conftest import Write

pytestmark = pytest.mark.django_db(transaction=True)
Owner = psycopg.Connection[Any]


def seal(tenant: Tenant) -> AuditSeal | None:
    with tenant_scope(tenant.pk):
        return chain.seal_tenant()


def problems(tenant: Tenant, **kwargs: str) -> list[str]:
    return [one.problem for one in chain.chain_verify(tenant=tenant, **kwargs).breaks]


@contextmanager
def open_writer(tenant: Tenant) -> Iterator[threading.Event]:
    """A transaction on another connection that has written a record and has not ended yet.

    Set the event, or leave, and it commits.
    """
    written, end = threading.Event(), threading.Event()

    def work() -> None:
        try:
            with tenant_scope(tenant.pk), transaction.atomic():
                services.record(action="slow.work.done", actor="user:9")
                written.set()
                end.wait(60)
        finally:
            connection.close()

    thread = threading.Thread(target=work)
    thread.start()
    assert written.wait(30)
    try:
        yield end
    finally:
        end.set()
        thread.join(30)


class TestSealing:
    def test_each_link_names_the_one_before(self, arena: Tenant, write: Write) -> None:
        write(arena)
        write(arena)
        first = seal(arena)
        write(arena)
        second = seal(arena)
        assert first is not None
        assert second is not None
        assert (first.number, first.records, first.previous) == (1, 2, "")
        assert (second.number, second.records, second.previous) == (2, 1, first.digest)
        assert second.from_position == first.below_position
        report = chain.chain_verify(tenant=arena)
        assert report.is_whole
        assert (report.seals, report.records, report.unsealed) == (2, 3, 0)
        assert report.head == second.digest

    def test_nothing_new_makes_no_link(self, arena: Tenant, write: Write) -> None:
        assert seal(arena) is None
        write(arena)
        assert seal(arena) is not None
        assert seal(arena) is None

    def test_a_late_commit_is_not_missed(self, arena: Tenant, write: Write) -> None:
        with open_writer(arena):
            # Written after the open one, committed before it.
            early = write(arena)
            assert seal(arena) is None
        link = seal(arena)
        assert link is not None
        assert link.records == 2
        with tenant_scope(arena.pk):
            late = AuditRecord.objects.get(action="slow.work.done")
        assert late.sequence < early.sequence
        assert late.position < early.position
        assert problems(arena) == []

    def test_what_is_complete_is_sealed_beside_an_open_transaction(
        self, arena: Tenant, write: Write
    ) -> None:
        write(arena)
        with open_writer(arena):
            write(arena)
            link = seal(arena)
            assert link is not None
            assert link.records == 1
            assert chain.chain_verify(tenant=arena).unsealed == 1
        link = seal(arena)
        assert link is not None
        assert link.records == 2
        assert problems(arena) == []

    def test_a_rolled_back_record_leaves_no_gap(self, arena: Tenant, write: Write) -> None:
        write(arena)
        with pytest.raises(RuntimeError), tenant_scope(arena.pk), transaction.atomic():
            services.record(action="a.b.done", actor="user:1")
            raise RuntimeError
        write(arena)
        link = seal(arena)
        assert link is not None
        assert link.records == 2
        assert problems(arena) == []

    def test_writers_and_sealers_at_once(self, arena: Tenant, write: Write) -> None:
        done = threading.Event()

        def sealer() -> None:
            try:
                while not done.is_set():
                    seal(arena)
            finally:
                connection.close()

        def writer() -> None:
            try:
                for _ in range(25):
                    write(arena)
            finally:
                connection.close()

        sealers = [threading.Thread(target=sealer) for _ in range(2)]
        writers = [threading.Thread(target=writer) for _ in range(4)]
        for thread in sealers + writers:
            thread.start()
        for thread in writers:
            thread.join(60)
        done.set()
        for thread in sealers:
            thread.join(60)
        seal(arena)
        report = chain.chain_verify(tenant=arena)
        assert report.is_whole
        assert (report.records, report.unsealed) == (100, 0)

    def test_the_task_seals_each_tenant_apart(
        self, arena: Tenant, teatro: Tenant, write: Write
    ) -> None:
        write(arena)
        write(teatro)
        write(teatro)
        tasks.seal()
        tasks.seal()
        for tenant, count in ((arena, 1), (teatro, 2)):
            report = chain.chain_verify(tenant=tenant)
            assert report.is_whole
            assert (report.seals, report.records) == (1, count)

    def test_a_restored_database_goes_on(self, arena: Tenant, write: Write, owner: Owner) -> None:
        write(arena)
        seal(arena)
        # As after a restore into another cluster: this one's number is not known, and its
        # transaction numbers may be lower than those in the chain.
        before = owner.execute("SELECT * FROM audit_cluster").fetchall()
        owner.execute("UPDATE audit_cluster SET system_identifier = 1")
        owner.execute("ALTER TABLE audit_auditrecord ENABLE TRIGGER USER")
        try:
            write(arena)
            assert seal(arena) is not None
            report = chain.chain_verify(tenant=arena)
            assert report.is_whole
            assert (report.seals, report.records) == (2, 2)
        finally:
            owner.execute("DELETE FROM audit_cluster")
            for row in before:
                owner.execute("INSERT INTO audit_cluster VALUES (%s, %s)", row)


class TestTampering:
    @pytest.fixture(autouse=True)
    def sealed(self, arena: Tenant, write: Write) -> None:
        for order in range(3):
            write(arena, target=f"order:{order}", details={"total": 240.5, "who": "Zoé"})
            seal(arena)
        assert problems(arena) == []

    @pytest.mark.parametrize(
        "change",
        [
            "actor = 'user:2'",
            "action = 'x'",
            "target = ''",
            "details = '{\"total\": 1}'",
            "created_at = created_at + interval '1 second'",
            "sequence = sequence + 1000",
        ],
    )
    def test_a_changed_record_shows(self, arena: Tenant, owner: Owner, change: str) -> None:
        owner.execute(f"UPDATE audit_auditrecord SET {change} WHERE target = 'order:1'")
        assert problems(arena) == ["a record, or the seal itself, was changed"]

    def test_a_removed_record_shows(self, arena: Tenant, owner: Owner) -> None:
        owner.execute("DELETE FROM audit_auditrecord WHERE target = 'order:1'")
        assert problems(arena) == ["it sealed 1 records, and there are 0"]

    def test_a_record_put_in_later_shows(self, arena: Tenant, owner: Owner) -> None:
        owner.execute(
            "INSERT INTO audit_auditrecord (id, tenant_id, position, action, actor, target,"
            " details, created_at) SELECT gen_random_uuid(), tenant_id, position, action, actor,"
            " target, details, created_at FROM audit_auditrecord WHERE target = 'order:1'"
        )
        assert problems(arena) == ["it sealed 1 records, and there are 2"]

    def test_a_record_moved_out_of_its_range_shows(self, arena: Tenant, owner: Owner) -> None:
        owner.execute("UPDATE audit_auditrecord SET position = 1 WHERE target = 'order:2'")
        assert problems(arena) == [
            "it sealed 1 records, and there are 2",
            "it sealed 1 records, and there are 0",
        ]

    def test_a_removed_seal_shows(self, arena: Tenant, owner: Owner) -> None:
        owner.execute("DELETE FROM audit_auditseal WHERE number = 2")
        found = problems(arena)
        assert "seals 2 to 2 are missing" in found
        assert "it does not name the seal before it" in found

    def test_a_seal_made_to_fit_breaks_the_next(self, arena: Tenant, owner: Owner) -> None:
        owner.execute("UPDATE audit_auditrecord SET actor = 'user:2' WHERE target = 'order:0'")
        with tenant_scope(arena.pk):
            record = AuditRecord.objects.get(target="order:0")
        digest = chain._Digest("")
        digest.add(record)
        owner.execute("UPDATE audit_auditseal SET digest = %s WHERE number = 1", [digest.value()])
        assert problems(arena)[0] == "it does not name the seal before it"

    def test_a_cut_off_end_shows_by_a_noted_head(self, arena: Tenant, owner: Owner) -> None:
        head = chain.chain_verify(tenant=arena).head
        assert problems(arena, noted=head) == []
        owner.execute("DELETE FROM audit_auditseal WHERE number = 3")
        owner.execute("DELETE FROM audit_auditrecord WHERE target = 'order:2'")
        assert problems(arena) == []
        assert problems(arena, noted=head) == ["the noted head is not in the chain"]


class TestCommand:
    def run(self, *args: str) -> tuple[int, str]:
        out = StringIO()
        try:
            call_command("audit", "verify", *args, stdout=out)
        except SystemExit as stop:
            return int(str(stop.code)), out.getvalue()
        except CommandError as error:
            return error.returncode, str(error)
        return 0, out.getvalue()

    def test_whole_chains(self, arena: Tenant, teatro: Tenant, write: Write) -> None:
        write(arena)
        seal(arena)
        write(arena)
        code, text = self.run()
        assert code == 0
        assert "arena: whole, 1 records under 1 seals, 1 not sealed yet" in text
        assert "teatro: whole, 0 records" in text
        assert self.run("--quiet") == (0, "")

    def test_json(self, arena: Tenant, write: Write) -> None:
        write(arena)
        link = seal(arena)
        assert link is not None
        code, text = self.run("--tenant", "arena", "--json")
        assert code == 0
        assert json.loads(text) == [
            {
                "tenant": "arena",
                "seals": 1,
                "records": 1,
                "unsealed": 0,
                "head": link.digest,
                "breaks": [],
                "covered": 0,
                "waiting": 0,
                "whole": True,
            }
        ]

    def test_a_broken_chain_exits_with_4(self, arena: Tenant, write: Write, owner: Owner) -> None:
        write(arena)
        seal(arena)
        owner.execute("UPDATE audit_auditrecord SET actor = 'user:2'")
        code, text = self.run("--quiet")
        assert code == 4
        assert "arena: BROKEN" in text
        assert "seal 1: a record, or the seal itself, was changed" in text
        code, text = self.run("--json")
        assert code == 4
        assert json.loads(text)[0]["breaks"][0]["seal"] == 1

    def test_what_is_asked_wrongly(self, arena: Tenant) -> None:
        assert self.run("--tenant", "nowhere")[0] == 3
        assert self.run("--head", "x")[0] == 2
        assert self.run("--head", "x", "--tenant", "arena")[0] == 4

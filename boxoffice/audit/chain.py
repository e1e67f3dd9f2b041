"""Tamper evidence: each tenant's records are chained by seals, and the chain can be walked."""

import hashlib
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from uuid import UUID

from django.db import connection, models, transaction
from django.db.models.functions import Coalesce

from boxoffice.audit import ledgers
from boxoffice.audit.models import AuditRecord, AuditSeal
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import current_tenant_id, operator_scope, tenant_scope

_LOCK_SPACE = zlib.crc32(b"boxoffice.audit.seal") - 2**31  # an int4 of our own
_CHUNK = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Break:
    """A place where the chain of a tenant does not hold."""

    seal: int
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a walk along a tenant's chain found. ``head`` is worth keeping outside the database.

    Of other rooms' ledgers ``covered`` rows are answered for by its records, ``waiting`` not yet.
    """

    tenant: str
    seals: int
    records: int
    unsealed: int
    head: str
    breaks: tuple[Break, ...]
    covered: int = 0
    waiting: int = 0

    @property
    def is_whole(self) -> bool:
        """Whether nothing was put in, changed or taken out."""
        return not self.breaks


def seal_all() -> int:
    """Seal what is complete, in every tenant that has something new. Returns the seals made."""
    with operator_scope("sealing the audit log"):
        sealed = (
            AuditSeal.objects.filter(tenant=models.OuterRef("pk"))
            .order_by("-number")
            .values("below_position")[:1]
        )
        waiting = AuditRecord.objects.filter(
            tenant=models.OuterRef("pk"), position__gte=models.OuterRef("sealed_below")
        )
        tenants = list(
            Tenant.objects.annotate(sealed_below=Coalesce(models.Subquery(sealed), 0))
            .filter(models.Exists(waiting))
            .values_list("pk", flat=True)
        )
        tenants += sorted(ledgers.tenants_waiting() - set(tenants))
    made = 0
    for tenant_id in tenants:
        with tenant_scope(tenant_id):
            made += seal_tenant() is not None
    return made


def seal_tenant() -> AuditSeal | None:
    """Make the next link of the open tenant's chain, or none when nothing new is complete.

    A record commits later than it is written, so age says nothing about what may still come. Its
    position names its transaction; below the oldest transaction that is still open, all have
    ended, and no record can appear any more. Only up to there a seal reaches.
    """
    with transaction.atomic():
        if not _lock(current_tenant_id()):
            return None  # a neighbour is at it
        last = AuditSeal.objects.order_by("-number").first()
        start = last.below_position if last else 0
        # In a statement before the one that reads: what it calls complete, the next one sees.
        horizon = _horizon()
        ledgers.cover(horizon)  # its own records are for the next seal
        digest = _Digest(last.digest if last else "")
        for record in _records(start, horizon):
            digest.add(record)
        if not digest.count:
            return None
        return AuditSeal.objects.create(
            number=last.number + 1 if last else 1,
            from_position=start,
            below_position=horizon,
            records=digest.count,
            previous=last.digest if last else "",
            digest=digest.value(),
        )


def chain_verify(*, tenant: Tenant, noted: str = "") -> Report:
    """Walk the chain of ``tenant`` from its first seal, recomputing every digest.

    ``noted`` is a head that was written down earlier: a chain that was cut off and made anew no
    longer holds it.
    """
    breaks: list[Break] = []
    previous, position, number, records = "", 0, 0, 0
    is_noted = not noted
    with tenant_scope(tenant.pk):
        for seal in AuditSeal.objects.order_by("number").iterator(_CHUNK):
            number += 1
            digest = _Digest(previous)
            for record in _records(position, seal.below_position):
                digest.add(record)
            for problem in _problems(seal, number, position, previous, digest):
                breaks.append(Break(seal=seal.number, problem=problem))
            previous, position, number = seal.digest, seal.below_position, seal.number
            records += digest.count
            is_noted = is_noted or seal.digest == noted
        unsealed = AuditRecord.objects.filter(position__gte=position).count()
        walks = list(ledgers.walks())
    problems = [problem for walk in walks for problem in walk.problems]
    breaks += [Break(seal=number, problem=problem) for problem in problems]
    if not is_noted:
        breaks.append(Break(seal=number, problem="the noted head is not in the chain"))
    return Report(
        tenant=tenant.slug,
        seals=number,
        records=records,
        unsealed=unsealed,
        head=previous,
        breaks=tuple(breaks),
        covered=sum(walk.covered for walk in walks),
        waiting=sum(walk.waiting for walk in walks),
    )


def _problems(
    seal: AuditSeal, number: int, position: int, previous: str, digest: "_Digest"
) -> Iterator[str]:
    if seal.number != number:
        yield f"seals {number} to {seal.number - 1} are missing"
    if seal.from_position != position:
        yield "its range does not begin where the seal before it ends"
    if seal.previous != previous:
        yield "it does not name the seal before it"
    if seal.records != digest.count:
        yield f"it sealed {seal.records} records, and there are {digest.count}"
    elif seal.digest != digest.value():
        yield "a record, or the seal itself, was changed"


class _Digest:
    """SHA-256 over the digest of the seal before and the canonical form of each record."""

    def __init__(self, previous: str) -> None:
        self._hash = hashlib.sha256(f"{previous}\n".encode())
        self.count = 0

    def add(self, record: AuditRecord) -> None:
        self._hash.update(canonical(record))
        self.count += 1

    def value(self) -> str:
        return self._hash.hexdigest()


def canonical(record: AuditRecord) -> bytes:
    """A record as one line of JSON in which equal records are equal bytes."""
    content = {
        "id": str(record.pk),
        "tenant": str(record.tenant_id),
        "sequence": record.sequence,
        "position": record.position,
        "action": record.action,
        "actor": record.actor,
        "target": record.target,
        "details": record.details,
        "created_at": record.created_at.astimezone(UTC).isoformat(timespec="microseconds"),
    }
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{text}\n".encode()


def _records(start: int, below: int) -> Iterator[AuditRecord]:
    rows = AuditRecord.objects.filter(position__gte=start, position__lt=below)
    return rows.order_by("position", "sequence").iterator(_CHUNK)


def _horizon() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT audit_horizon()")
        row: tuple[int] = cursor.fetchone()
    return row[0]


def _lock(tenant_id: UUID) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_try_advisory_xact_lock(%s, hashtext(%s))", [_LOCK_SPACE, str(tenant_id)]
        )
        row: tuple[bool] = cursor.fetchone()
    return row[0]

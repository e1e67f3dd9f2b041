"""Rows outside this room that the chain answers for: a port.

A ledger's rows are not copied into the audit log. A record says of a range of positions how many
rows ended there and what their digest is, and the record is sealed like any other.
"""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol
from uuid import UUID

from boxoffice.audit.models import AuditRecord
from boxoffice.audit.services import record
from boxoffice.common.clock import now

ACTOR = "system:audit"
# A round that failed in one tenant is made up for by the rounds of so long after it.
LOOKS_BACK = timedelta(minutes=10)


class Ledger(Protocol):
    """Rows with a position that never change once they have one. In the open scope."""

    action: str  # of the records that cover them, ``<app>.<rows>.covered``
    form: int  # of the lines: a new one when what they hold changes

    def lines(self, start: int, below: int, form: int) -> Iterable[bytes]:
        """One line for each row from ``start`` on and below ``below``, by position and id."""

    def count(self, start: int) -> int:
        """How many rows have a position from ``start`` on."""

    def tenants(self, start: int) -> Iterable[UUID]:
        """Whose rows they are."""


_ledgers: list[Ledger] = []


def register(ledger: Ledger) -> None:
    """Let the chain answer for a ledger."""
    if all(each.action != ledger.action for each in _ledgers):
        _ledgers.append(ledger)


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """What was found of one ledger: rows that are covered, those that are not yet, and faults."""

    covered: int
    waiting: int
    problems: tuple[str, ...]


def tenants_waiting() -> set[UUID]:
    """Whose ledgers may have something new, in the operator's scope."""
    found: set[UUID] = set()
    for ledger in _ledgers:
        rounds = AuditRecord.objects.filter(action=ledger.action, created_at__lt=now() - LOOKS_BACK)
        last = rounds.order_by("-sequence").first()
        found.update(ledger.tenants(last.details["below"] if last else 0))
    return found


def cover(below: int) -> int:
    """Write down what has ended below a position since it was last done, in the open tenant.

    In the transaction of the seal, whose lock keeps others out. Returns how many rows it were.
    """
    covered = 0
    for ledger in _ledgers:
        last = AuditRecord.objects.filter(action=ledger.action).order_by("-sequence").first()
        start = last.details["below"] if last else 0
        count, digest = _digest(ledger.lines(start, below, ledger.form))
        if count:
            details = {"form": ledger.form, "from": start, "below": below}
            details |= {"rows": count, "digest": digest}
            record(action=ledger.action, actor=ACTOR, details=details)
        covered += count
    return covered


def walks() -> Iterator[Walk]:
    """Hold every ledger of the open tenant against the records that cover it."""
    for ledger in _ledgers:
        position, covered = 0, 0
        problems: list[str] = []
        rounds = AuditRecord.objects.filter(action=ledger.action).order_by("sequence")
        for each in rounds.iterator(500):
            said = each.details
            if said["from"] != position:
                problems.append(f"{each}: its range does not begin where the one before ends")
            count, digest = _digest(ledger.lines(said["from"], said["below"], said["form"]))
            if count != said["rows"]:
                problems.append(f"{each}: it covered {said['rows']} rows, and there are {count}")
            elif digest != said["digest"]:
                problems.append(f"{each}: a row was changed")
            position, covered = said["below"], covered + count
        waiting = ledger.count(position)
        yield Walk(covered=covered, waiting=waiting, problems=tuple(problems))


def _digest(lines: Iterable[bytes]) -> tuple[int, str]:
    count, digest = 0, hashlib.sha256()
    for line in lines:
        digest.update(line)
        count += 1
    return count, digest.hexdigest()

"""Where the demo's payment provider writes down what it did: each key once."""

import threading
from dataclasses import dataclass, replace
from typing import Protocol

from django.db import IntegrityError, connection, transaction

from boxoffice.acquirer.models import Movement

DECLINED, NO_SUCH_CHARGE, REFUNDED_BEFORE = "declined", "no_such_charge", "refunded_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A charge, or the refund of the charge named by ``charge_key``. ``refusal``: why not."""

    key: str
    amount_minor: int
    charge_key: str = ""
    refusal: str = ""


class Book(Protocol):
    """Entries by key."""

    def find(self, key: str) -> Entry | None:
        """What was done for a key."""
        ...

    def enter(self, wanted: Entry) -> Entry:
        """Do what is wanted, once: what was done for the key before comes back as it was."""
        ...


class MemoryBook:
    """A record in a process: for tests."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._lock = threading.Lock()

    def find(self, key: str) -> Entry | None:
        """What was done for a key."""
        return self.entries.get(key)

    def enter(self, wanted: Entry) -> Entry:
        """Do what is wanted, once."""
        with self._lock:
            if wanted.key not in self.entries:
                self.entries[wanted.key] = replace(wanted, refusal=self._refusal(wanted))
            return self.entries[wanted.key]

    def _refusal(self, wanted: Entry) -> str:
        if wanted.refusal or not wanted.charge_key:
            return wanted.refusal
        charge = self.entries.get(wanted.charge_key)
        if charge is None or charge.refusal or charge.charge_key:
            return NO_SUCH_CHARGE
        others = self.entries.values()
        done = any(e.charge_key == wanted.charge_key and not e.refusal for e in others)
        return REFUNDED_BEFORE if done else ""


class TableBook:
    """A record in a table of its own, over a connection of its own.

    To be used from a thread that has no transaction open: what is entered is committed, whatever
    becomes of the process that asked for it.
    """

    def find(self, key: str) -> Entry | None:
        """What was done for a key."""
        try:
            return _entry(Movement.objects.filter(key=key).first())
        finally:
            connection.close()

    def enter(self, wanted: Entry) -> Entry:
        """Do what is wanted, once."""
        try:
            return self._enter(wanted)
        finally:
            connection.close()

    def _enter(self, wanted: Entry) -> Entry:
        refusal = wanted.refusal
        if wanted.charge_key and not refusal and not _is_charge(wanted.charge_key):
            refusal = NO_SUCH_CHARGE
        made = _once(replace(wanted, refusal=refusal))
        if made is None:  # neither made nor there: the charge was refunded under another key
            made = _once(replace(wanted, refusal=REFUNDED_BEFORE))
        if made is None:
            raise RuntimeError(f"{wanted.key} was neither entered nor found")
        return made


def _once(entry: Entry) -> Entry | None:
    """The entry, or what somebody else entered for the same key meanwhile."""
    return _insert(entry) or _entry(Movement.objects.filter(key=entry.key).first())


def _is_charge(key: str) -> bool:
    return Movement.objects.filter(key=key, charge_key="", refusal="").exists()


def _insert(entry: Entry) -> Entry | None:
    try:
        with transaction.atomic():
            Movement.objects.create(
                key=entry.key,
                charge_key=entry.charge_key,
                amount_minor=entry.amount_minor,
                refusal=entry.refusal,
            )
    except IntegrityError:
        return None
    return entry


def _entry(row: Movement | None) -> Entry | None:
    if row is None:
        return None
    return Entry(
        key=row.key,
        charge_key=row.charge_key,
        amount_minor=row.amount_minor,
        refusal=row.refusal,
    )

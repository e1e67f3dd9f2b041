"""The demo provider's record: a key is done once, and told the same to all who ask."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from boxoffice.acquirer import book
from boxoffice.acquirer.book import NO_SUCH_CHARGE, REFUNDED_BEFORE, Entry, TableBook
from boxoffice.acquirer.models import Movement

pytestmark = pytest.mark.django_db(transaction=True)

CHARGE = Entry(key="charge", amount_minor=100)
REFUND = Entry(key="refund", amount_minor=100, charge_key="charge")
SECOND = Entry(key="second", amount_minor=100, charge_key="charge")


def at_once(wanted: list[Entry]) -> list[Entry]:
    """Enter all at the same moment, each over a connection of its own."""
    barrier = threading.Barrier(len(wanted))

    def one(entry: Entry) -> Entry:
        barrier.wait(20)
        return TableBook().enter(entry)

    with ThreadPoolExecutor(len(wanted)) as pool:
        return list(pool.map(one, wanted))


def test_a_repeat_is_answered_as_the_first() -> None:
    table = TableBook()
    for entry in (CHARGE, REFUND):
        assert table.enter(entry) == table.enter(entry) == table.find(entry.key) == entry
    assert table.enter(SECOND).refusal == REFUNDED_BEFORE
    assert table.enter(Entry(key="k", amount_minor=1, charge_key="none")).refusal == NO_SUCH_CHARGE


def test_whoever_races_for_a_key_hears_the_same() -> None:
    TableBook().enter(CHARGE)
    answers = at_once([REFUND, SECOND] * 4)
    assert len(set(answers)) == 2
    assert sorted(one.refusal for one in set(answers)) == ["", REFUNDED_BEFORE]
    assert set(answers) == {book._entry(row) for row in Movement.objects.exclude(key="charge")}


def test_a_refusal_that_another_was_faster_to_write_down_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both find that the charge was refunded before; the second meets the first's row."""
    TableBook().enter(CHARGE)
    TableBook().enter(REFUND)
    insert, faster = book._insert, []

    def overtaken(entry: Entry) -> Entry | None:
        if entry.refusal and not faster:
            faster.append(True)
            with ThreadPoolExecutor(1) as pool:
                pool.submit(TableBook().enter, entry).result(20)
        return insert(entry)

    monkeypatch.setattr(book, "_insert", overtaken)
    heard = TableBook().enter(SECOND)
    assert faster
    assert heard == TableBook().find("second")
    assert heard.refusal == REFUNDED_BEFORE

"""The product's time: steady when the machine's jumps, the database's when they differ."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from boxoffice.common import clock

HOUR = timedelta(hours=1)
SHORT = timedelta(seconds=10)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the machine's clock; the process has just begun."""
    monkeypatch.setattr(clock, "_since", None)
    real = timezone.now

    def jump(by: timedelta) -> None:
        monkeypatch.setattr(timezone, "now", lambda: real() + by)

    return jump


def is_about(moment: datetime) -> bool:
    return abs(clock.now() - moment) < SHORT


def test_it_is_the_machines_time_until_the_database_was_asked(machine: Any) -> None:
    true = timezone.now()
    assert is_about(true)
    machine(HOUR)
    assert is_about(true + HOUR)


@pytest.mark.parametrize("by", [HOUR, -HOUR])
def test_a_machine_whose_clock_jumps_afterwards_is_not_followed(
    machine: Any, by: timedelta
) -> None:
    true = timezone.now()
    clock.agree_with(true)
    machine(by)
    assert is_about(true)
    clock.agree_with(true + timedelta(milliseconds=300))
    assert is_about(true)


def test_a_machine_that_is_wrong_from_the_beginning_is_put_right(machine: Any) -> None:
    true = timezone.now()
    machine(-HOUR)
    assert is_about(true - HOUR)
    clock.agree_with(true)
    assert is_about(true)


def test_a_small_difference_moves_nothing(machine: Any) -> None:
    clock.agree_with(timezone.now())
    first = clock.now()
    clock.agree_with(timezone.now() - timedelta(seconds=1.5))
    assert clock.now() >= first


@pytest.mark.django_db(transaction=True)
def test_a_new_connection_compares(machine: Any) -> None:

    true = timezone.now()
    connection.close()
    connection.close_pool()
    machine(HOUR)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    assert is_about(true)

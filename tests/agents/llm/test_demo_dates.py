"""Dates as people say them. Today is Monday, 30 November 2026, unless said otherwise."""

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.demo.dates import MONTHS, WEEKDAYS, find_dates, next_weekday
from agents.llm.demo.text import fold

TODAY = date(2026, 11, 30)
DAYS = st.dates(min_value=date(2024, 1, 1), max_value=date(2035, 12, 31))
PT_MONTHS = list(MONTHS)[:12]
EN_MONTHS = list(MONTHS)[12:]


def days(text: str, today: date = TODAY) -> tuple[date | None, date | None] | None:
    found = find_dates(fold(text), today)
    return (found.first, found.last) if found else None


def one(month: int, day: int, year: int = 2026) -> tuple[date, date]:
    return date(year, month, day), date(year, month, day)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hoje", one(11, 30)),
        ("hoje à noite", one(11, 30)),
        ("amanhã", one(12, 1)),
        ("depois de amanhã", one(12, 2)),
        ("sábado", one(12, 5)),
        ("no sábado que vem", one(12, 5)),
        ("próxima sexta", one(12, 4)),
        ("sexta-feira", one(12, 4)),
        ("segunda-feira", one(11, 30)),
        ("próxima segunda", one(12, 7)),
        ("fim de semana", (date(2026, 12, 5), date(2026, 12, 6))),
        ("12/12", one(12, 12)),
        ("12/12/26", one(12, 12)),
        ("dia 12", one(12, 12)),
        ("12 de dezembro", one(12, 12)),
        ("1º de janeiro de 2027", one(1, 1, 2027)),
        ("29 de fevereiro", one(2, 29, 2028)),
        ("29/11", one(11, 29, 2027)),
        ("de 5 a 10 de dezembro", (date(2026, 12, 5), date(2026, 12, 10))),
        ("entre sexta e domingo", (date(2026, 12, 4), date(2026, 12, 6))),
        ("até 20 de dezembro", (TODAY, date(2026, 12, 20))),
        ("a partir de amanhã", (date(2026, 12, 1), None)),
        ("em dezembro", (date(2026, 12, 1), date(2026, 12, 31))),
        ("na próxima semana", (date(2026, 12, 7), date(2026, 12, 13))),
        ("daqui a 10 dias", one(12, 10)),
        ("today", one(11, 30)),
        ("tomorrow", one(12, 1)),
        ("on saturday", one(12, 5)),
        ("next friday", one(12, 4)),
        ("this weekend", (date(2026, 12, 5), date(2026, 12, 6))),
        ("december 12", one(12, 12)),
        ("12th of december", one(12, 12)),
        ("the 12th", one(12, 12)),
        ("2026-12-05", one(12, 5)),
        ("from december 5 to december 10", (date(2026, 12, 5), date(2026, 12, 10))),
        ("12/25", one(12, 25)),
        ("in january", (date(2027, 1, 1), date(2027, 1, 31))),
    ],
)
def test_days_as_people_say_them(text: str, expected: tuple[date | None, date | None]) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    "text", ["31/11", "a segunda opção", "dois assentos", "32/13", "dia 45", "R$ 12,50", "maio", ""]
)
def test_what_is_no_day_is_not_taken_for_one(text: str) -> None:
    assert days(text) is None


def test_on_a_saturday_saturday_is_today_and_next_saturday_is_not() -> None:
    saturday = date(2026, 12, 5)
    assert days("sábado", saturday) == (saturday, saturday)
    assert days("próximo sábado", saturday) == (date(2026, 12, 12), date(2026, 12, 12))
    assert days("fim de semana", saturday) == (saturday, date(2026, 12, 6))
    assert days("next weekend", saturday) == (date(2026, 12, 12), date(2026, 12, 13))


def test_on_a_sunday_the_weekend_is_what_is_left_of_it() -> None:
    sunday = date(2026, 12, 6)
    assert days("fim de semana", sunday) == (sunday, sunday)


@given(DAYS, st.sampled_from(list(WEEKDAYS)))
def test_a_weekday_is_the_next_such_day_on_or_after_today(today: date, name: str) -> None:
    found = days(f"quero ir no {name}", today)
    assert found is not None
    first, last = found
    assert first == last == next_weekday(WEEKDAYS[name], today)
    assert first is not None
    assert 0 <= (first - today).days < 7
    assert first.weekday() == WEEKDAYS[name]


@given(DAYS, st.integers(min_value=0, max_value=300))
def test_every_spelling_of_a_coming_day_is_read_back(today: date, ahead: int) -> None:
    day = today + timedelta(days=ahead)
    spellings = [
        f"{day.isoformat()}",
        f"{day.day}/{day.month}/{day.year}",
        f"dia {day.day}/{day.month}" if day.month != day.day else f"{day.day}/{day.month}",
        f"{day.day} de {PT_MONTHS[day.month - 1]}",
        f"{EN_MONTHS[day.month - 1]} {day.day}, {day.year}",
        f"{day.day} de {PT_MONTHS[day.month - 1]} de {day.year}",
    ]
    for spelling in spellings:
        assert days(f"dois assentos para {spelling}, por favor", today) == (day, day), spelling


@given(st.text(max_size=300), DAYS)
def test_no_text_breaks_the_reading_of_dates(text: str, today: date) -> None:
    found = find_dates(fold(text), today)
    assert found is None or found.first is None or found.last is None or found.first <= found.last

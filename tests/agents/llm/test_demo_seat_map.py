"""Seats that were tapped on the page's map come with their ids, and are held as they are."""

import pytest

from agents.llm.demo.details import picked_seats, without_pick
from tests.support.demo_stage import EVENTS, BoxOffice, Stage, error, seat_id

EVENT = EVENTS[0]["id"]
SEATS = [seat_id(1, "C", 4), seat_id(1, "C", 5)]
MARK = f"[event {EVENT} seats {SEATS[0]}, {SEATS[1]}]"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("Reserve estes assentos para o show: Plateia, fila C · 4, 5", "Reserv"),
        ("Please hold these seats for the show: Stalls, row C · 4, 5", "hold"),
    ],
)
def test_picked_seats_are_held_in_the_fans_language(words: str, answer: str) -> None:
    office = BoxOffice()
    stage = Stage(office)
    told = stage.say(f"{words} {MARK}")
    assert office.made("hold_seats") == [{"event_id": EVENT, "seat_ids": SEATS}]
    assert answer in told


def test_picked_seats_that_were_taken_lead_to_other_ones() -> None:
    office = BoxOffice()
    office.answer("hold_seats", error("seats_taken"))
    Stage(office).say(f"Reserve estes assentos {MARK}")
    first, second = office.made("hold_seats")
    assert first["seat_ids"] == SEATS
    assert len(second["seat_ids"]) == 2
    assert second["event_id"] == EVENT


@pytest.mark.parametrize(
    "text", ["Reserve", "[event x seats y]", f"[event {EVENT} seats ]", f"{MARK} e mais"]
)
def test_other_messages_carry_no_seats(text: str) -> None:
    assert picked_seats(text) is None
    assert without_pick(text) == text


def test_ids_are_no_words_of_the_message() -> None:
    assert without_pick(f"Reserve estes {MARK}") == "Reserve estes"

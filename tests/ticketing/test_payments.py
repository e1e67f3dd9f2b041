"""What a payment provider says, and what it is taken for: money is never guessed at."""

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from boxoffice.common.exceptions import NotSent, OutcomeLost
from boxoffice.common.types import JsonObject
from boxoffice.ticketing.exceptions import PaymentDeclined, PaymentRefused
from boxoffice.ticketing.services.payments import HttpProvider
from tests.support.acquirer import Acquirer, Said


@pytest.fixture(scope="module")
def running() -> Iterator[Acquirer]:
    """One provider for all tests."""
    with Acquirer() as live:
        yield live


@pytest.fixture
def acquirer(running: Acquirer, settings: Any) -> Acquirer:
    """The provider, with an empty book."""
    settings.PAYMENT_URL = running.url
    running.forget()
    return running


def heard[R](asked: Coroutine[Any, Any, R]) -> R:
    """The answer, asked for in a loop of its own."""
    return asyncio.run(asked)


def charge(key: str = "k") -> JsonObject:
    """Take 24.00 BRL."""
    return heard(HttpProvider().charge(key=key, amount_minor=2400, description="Jazz"))


def refund(key: str = "r") -> JsonObject:
    """Give it back."""
    return heard(HttpProvider().refund(key=key, charge_key="k", amount_minor=2400))


def lookup(key: str = "k") -> JsonObject | None:
    """Ask what became of it."""
    return heard(HttpProvider().lookup(key=key))


def test_a_movement_is_found_by_its_key(acquirer: Acquirer) -> None:
    assert lookup() is None
    assert charge() == lookup()
    assert refund() == lookup("r")
    assert lookup("r") != lookup("k")


# Of a key nothing else says what became of it: that we may not ask is no answer to the question.
@pytest.mark.parametrize(
    "status", [201, 204, 302, 400, 401, 403, 405, 408, 409, 410, 418, 422, 451, 500, 502, 503]
)
def test_a_lookup_that_is_turned_away_is_no_answer(acquirer: Acquirer, status: int) -> None:
    charge()
    acquirer.expect(Said(status), on="lookup")
    with pytest.raises(OutcomeLost, match=str(status)):
        lookup()


@pytest.mark.parametrize("status", [425, 429])
def test_a_lookup_that_comes_too_often_can_be_made_again(acquirer: Acquirer, status: int) -> None:
    acquirer.expect(Said(status), on="lookup")
    with pytest.raises(NotSent):
        lookup()


@pytest.mark.parametrize("body", [None, [], "no", 3])
@pytest.mark.parametrize("status", [200, 402])
def test_a_lookup_without_an_object_is_no_answer(
    acquirer: Acquirer, status: int, body: Any
) -> None:
    acquirer.expect(Said(status, body), on="lookup")
    with pytest.raises(OutcomeLost):
        lookup()


def test_a_lookup_tells_a_refusal_as_the_movement_did(acquirer: Acquirer) -> None:
    acquirer.expect(Said(402, {"reason": "declined"}), on="lookup")
    with pytest.raises(PaymentDeclined):
        lookup()


# Too late, the same key is at work, locked, hung up: each may come while the money is moving.
@pytest.mark.parametrize("status", [201, 202, 302, 408, 409, 418, 423, 499, 500, 502, 503, 504])
@pytest.mark.parametrize("move", [charge, refund])
def test_what_may_have_been_done_is_not_a_refusal(
    acquirer: Acquirer, status: int, move: Any
) -> None:
    acquirer.expect(Said(status))
    with pytest.raises(OutcomeLost, match=str(status)):
        move()


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 415, 422])
@pytest.mark.parametrize("move", [charge, refund])
def test_what_was_surely_not_done_is_a_refusal(acquirer: Acquirer, status: int, move: Any) -> None:
    acquirer.expect(Said(status))
    with pytest.raises(PaymentRefused):
        move()

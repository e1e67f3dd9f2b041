"""A house whose payments go to a provider of the tests' own."""

from collections.abc import Iterator
from typing import Any

import pytest

from boxoffice.acquirer.server import Trouble
from tests.support.acquirer import Acquirer
from tests.support.cast import Cast, arena, teatro
from tests.tools.buying import SEATS, Buyer
from tools import failures
from tools.models import ToolCall

__all__ = ["arena", "teatro"]


@pytest.fixture(scope="session")
def provider() -> Iterator[Acquirer]:
    """One provider for all tests."""
    with Acquirer() as live:
        yield live


@pytest.fixture
def acquirer(
    provider: Acquirer, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Acquirer]:
    """The provider, with an empty book; nobody pauses between tries."""
    settings.PAYMENT_URL = provider.url
    settings.CIRCUIT_FAILURES = 10_000  # far more troubles than a provider has in a minute
    monkeypatch.setattr(failures, "FIRST_PAUSE_SECONDS", 0.0)
    provider.forget()
    yield provider
    provider.forget()


@pytest.fixture
def buyer(arena: Cast, acquirer: Acquirer) -> Iterator[Buyer]:
    """ana; the scope of her tenant is open."""
    with arena.scope():
        yield Buyer(house=arena, seats=iter(SEATS), acquirer=acquirer)


@pytest.fixture
def lost(arena: Cast, acquirer: Acquirer) -> ToolCall:
    """ana's purchase, of which nobody knows; no scope is open."""
    with arena.scope():
        acquirer.expect(Trouble.DROP_AFTER)
        acquirer.always(Trouble.ERROR, on="lookup")
        buyer = Buyer(house=arena, seats=iter(SEATS), acquirer=acquirer)
        call = buyer.finish(buyer.begun("place_order"))
    acquirer.always(None, on="lookup")
    assert call.state == "unknown"
    return call

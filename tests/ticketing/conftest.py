"""The house of the box office's tests, with its scope open."""

from collections.abc import Iterator

import pytest

from boxoffice.tenancy.scope import tenant_scope
from tests.ticketing.factory import House, make_house


@pytest.fixture
def other_house(db: None) -> House:
    """Another tenant with the same seats."""
    return make_house("teatro")


@pytest.fixture
def house(db: None) -> Iterator[House]:
    """The tenant whose scope is open during the test."""
    made = make_house("arena")
    with tenant_scope(made.tenant.pk):
        yield made

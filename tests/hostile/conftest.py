"""The two box offices, planted once for all calls: whatever a call does is rolled back."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from tests.hostile.world import World, make_world


@pytest.fixture(scope="package")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[World]:
    """Both tenants, committed; none of the tests may change them."""
    with django_db_blocker.unblock():
        yield make_world()
        call_command("flush", verbosity=0, interactive=False)

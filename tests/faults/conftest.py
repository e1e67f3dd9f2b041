"""What the fault tests share: casts, and a scripted model that child processes reach.

Tests that only add to what is there share one house, one model and one stack per file: to start
the site's processes costs seconds of CPU. What they commit goes away at the end of the file.
"""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from pytest_django import DjangoDbBlocker

from tests.support.cast import Cast, arena, make_cast, teatro
from tests.support.scripted_model import ScriptedModel
from tests.support.worker import model

__all__ = ["arena", "model", "teatro"]


@pytest.fixture(scope="module")
def house(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Cast]:
    """The tenant `arena`, committed for all tests of the file."""
    with django_db_blocker.unblock():
        yield make_cast("arena")
        call_command("flush", verbosity=0, interactive=False)


@pytest.fixture(scope="module")
def scripted() -> Iterator[ScriptedModel]:
    """A scripted model for all tests of the file."""
    with ScriptedModel() as server:
        yield server


@pytest.fixture
def asked(scripted: ScriptedModel) -> Iterator[ScriptedModel]:
    """The file's scripted model, with nothing left over from the test before."""
    scripted.reset()
    yield scripted
    scripted.reset()

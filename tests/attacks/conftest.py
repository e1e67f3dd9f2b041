"""A world to be attacked, a model that obeys whoever speaks last, and the loop between them."""

from collections.abc import Iterator

import pytest
import redis
from django.conf import settings
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from agents import handout
from tests.hostile.conftest import world
from tests.support.scripted_model import ScriptedModel
from tests.support.worker import Worker

__all__ = ["world"]


@pytest.fixture(autouse=True)
def database(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """What the cases write stays: the worker has to see it. Attacks have no effects to undo."""
    redis.Redis.from_url(settings.REDIS_URL).flushdb()  # one case does not use up another's rate
    with django_db_blocker.unblock():
        yield


@pytest.fixture(scope="package")
def victim() -> Iterator[ScriptedModel]:
    """The model's server."""
    with ScriptedModel() as model:
        yield model


@pytest.fixture(scope="package")
def worker(victim: ScriptedModel) -> Iterator[Worker]:
    """A worker that asks it."""
    with (
        pytest.MonkeyPatch.context() as patch,
        override_settings(ANTHROPIC_API_KEY="scripted", ANTHROPIC_BASE_URL=victim.base_url),
    ):
        patch.setattr(handout, "hand_out", lambda tenant_id, run_id: None)
        live = Worker()
        yield live
        live.runtime.drain()

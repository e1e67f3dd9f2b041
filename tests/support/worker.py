"""A worker inside the test process: the real runtime, against a scripted model."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from agents import handout
from agents.loop.worker import WorkerRuntime
from tests.support.scripted_model import ScriptedModel

WORK_SECONDS = 30


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    """A scripted model on a port of its own."""
    with ScriptedModel() as server:
        yield server


class Worker:
    """Works on runs when told to; nothing happens by itself."""

    def __init__(self) -> None:
        self.runtime = WorkerRuntime()

    def work(self, run: Any) -> None:
        """Work on a run until it ends, waits, or is lost."""
        self.start(run.tenant_id, run.pk).result(WORK_SECONDS)

    def start(self, tenant_id: UUID, run_id: UUID) -> Any:
        """Begin to work on a run; returns the future."""
        return self.runtime.submit(run_id=run_id)


@pytest.fixture
def handed_out(monkeypatch: pytest.MonkeyPatch) -> list[UUID]:
    """The runs for which a worker would be woken, in order; none is."""
    woken: list[UUID] = []
    monkeypatch.setattr(handout, "hand_out", lambda tenant_id, run_id: woken.append(run_id))
    return woken


@pytest.fixture
def worker(
    settings: Any, model: ScriptedModel, handed_out: list[UUID], transactional_db: None
) -> Iterator[Worker]:
    """A worker that asks the scripted model."""
    settings.ANTHROPIC_API_KEY = "scripted"
    settings.ANTHROPIC_BASE_URL = model.base_url
    live = Worker()
    yield live
    if not live.runtime.is_draining:
        live.runtime.drain()

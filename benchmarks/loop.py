"""The product's own loop in this process, with a model that takes no time and a tool of 1 KB."""

import asyncio
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from unittest import mock
from uuid import uuid4

import psycopg
import uvloop
from pydantic import Field

from agents import checkpoints, leases
from agents.database import in_db
from agents.llm.gateway import Gateway
from agents.llm.turns import ModelRequest, ModelTurn, ProposedCall, Usage
from agents.loop.runner import Runner
from agents.models import Run
from agents.stream import Publisher
from benchmarks.stage import Stage, no_wake_ups
from boxoffice.tenancy.scope import tenant_scope
from tools import dispatch, registry
from tools.spec import Risk, ToolContext, ToolInput, ToolOutput

TOOL = "benchmark_lookup"
_TITLES = ("Noite de Jazz", "Hamlet", "Roda de Samba", "Orquestra Jovem", "Baile de Outono")
# As the model of the real service writes: a sentence before each call.
_SAYS = "Vou procurar os eventos que combinam com o que você pediu."


class LookupInput(ToolInput):
    """What to look for."""

    query: str = Field(max_length=200)


class LookupOutput(ToolOutput):
    """About 1 KB of rows with ids, as a search returns them."""

    events: list[dict[str, Any]]
    source: str


@registry.tool(TOOL, risk=Risk.READ)
def benchmark_lookup(context: ToolContext, arguments: LookupInput) -> LookupOutput:
    """Return about 1 KB of rows without asking the database.

    Only the benchmarks register this tool. It measures what the harness costs around a tool.
    """
    events = [
        {
            "id": str(uuid4()),
            "title": f"{title} {secrets.token_hex(4)}",
            "starts_at": f"2026-12-0{number}T20:30:00-03:00",
            "venue": f"Casa {secrets.token_hex(6)}",
            "price_from_brl": 90.5,
            "seats_free": secrets.randbelow(400),
        }
        for number, title in enumerate(_TITLES, start=1)
    ]
    return LookupOutput(events=events, source="benchmark")


@dataclass(slots=True)
class Clock:
    """When the model was asked and had answered, and how long each phase took (ms)."""

    steps: list[float] = field(default_factory=list)
    phases: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    counts: Counter[str] = field(default_factory=Counter)
    begun_at: float = 0.0

    def asked(self, *, is_first: bool) -> None:
        """The model is called: what lies between is the harness's own time."""
        passed = (time.perf_counter() - self.begun_at) * 1000
        if is_first:
            self.phases["claim and load"].append(passed)
        else:
            self.steps.append(passed)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time the phases of a step, and count what is sent to the database."""
        with (
            self._timed(checkpoints, "model_commit", "model commit"),
            self._timed(dispatch, "read_run", "dispatch"),
            self._timed(checkpoints, "read_commit", "dispatch and results commit"),
            self._timed(checkpoints, "answer_commit", "answer commit"),
            self._counted(psycopg.Cursor, "execute", "messages"),
            self._counted(psycopg.Connection, "commit", "commits"),
        ):
            yield

    def _timed(self, module: Any, name: str, phase: str) -> Any:
        real = getattr(module, name)

        def timed(**kwargs: Any) -> Any:
            started = time.perf_counter()
            try:
                return real(**kwargs)
            finally:
                self.phases[phase].append((time.perf_counter() - started) * 1000)

        return mock.patch.object(module, name, timed)

    def _counted(self, kind: Any, name: str, what: str) -> Any:
        real = getattr(kind, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.counts[what] += 1
            return real(*args, **kwargs)

        return mock.patch.object(kind, name, counted)


class ZeroModel:
    """In the gateway's place: asks for the tool ``steps`` times, then answers, in no time."""

    def __init__(self, *, steps: int, clock: Clock) -> None:
        self._steps = steps
        self._clock = clock
        self._done = 0

    async def stream(
        self,
        request: ModelRequest,
        *,
        on_text: Callable[[str], None],
        on_restart: Callable[[], None],
    ) -> ModelTurn:
        """The next turn."""
        self._clock.asked(is_first=self._done == 0)
        self._done += 1
        turn = self._call() if self._done <= self._steps else _answer()
        on_text(turn.text)
        self._clock.begun_at = time.perf_counter()
        return turn

    def _call(self) -> ModelTurn:
        call_id = f"toolu_{secrets.token_hex(12)}"
        arguments = {"query": f"jazz {self._done}"}
        return ModelTurn(
            blocks=[
                {"type": "text", "text": _SAYS},
                {"type": "tool_use", "id": call_id, "name": TOOL, "input": arguments},
            ],
            calls=[ProposedCall(call_id=call_id, tool=TOOL, arguments=arguments)],
            stop_reason="tool_use",
            usage=Usage(input_tokens=1_500, output_tokens=60),
            request_id=f"req_{secrets.token_hex(12)}",
        )


def _answer() -> ModelTurn:
    return ModelTurn(
        blocks=[{"type": "text", "text": _SAYS}],
        calls=[],
        stop_reason="end_turn",
        usage=Usage(input_tokens=1_500, output_tokens=60),
        request_id=f"req_{secrets.token_hex(12)}",
    )


def work(stage: Stage, runs: Sequence[Run], *, steps: int, clock: Clock) -> None:
    """Work on runs one after another, each with ``steps`` calls of the model and of the tool."""
    with clock.watching():
        uvloop.run(_work(stage, runs, steps, clock))


async def _work(stage: Stage, runs: Sequence[Run], steps: int, clock: Clock) -> None:
    publisher = Publisher()
    with tenant_scope(stage.tenant.pk):
        for run in runs:
            clock.begun_at = time.perf_counter()
            lease = await in_db(leases.run_claim, run_id=run.pk, owner="benchmark")
            assert lease is not None
            model = cast(Gateway, ZeroModel(steps=steps, clock=clock))
            await Runner(lease=lease, gateway=model, publisher=publisher).run()
            await asyncio.sleep(0)
    await publisher.close()


def queue_runs(stage: Stage, count: int) -> list[Run]:
    """Runs in as many conversations, for nobody but this process to claim."""
    fan = stage.fans[0]
    with no_wake_ups(), tenant_scope(stage.tenant.pk):
        return [
            stage.post(stage.conversation(fan), fan, "procure um show de jazz")
            for _ in range(count)
        ]

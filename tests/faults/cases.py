"""One case of the walk: a scenario, where its process dies, and how it came to its end."""

from dataclasses import dataclass, field
from itertools import groupby
from uuid import UUID, uuid4

from tests.faults.scenarios import FAN, Scenario

# After these a run waits for its human, or is over: nobody takes it up again.
RESTS = {"wait_committed", "answer_committed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """The ``count``-th pass of a crash point, and when it was."""

    point: str
    count: int
    at: float = 0.0
    pid: int = 0

    def __str__(self) -> str:
        return f"{self.point}#{self.count}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a conversation stands in the end: what a death must not change."""

    state: str
    kinds: tuple[str, ...]
    calls: tuple[tuple[str, str, str], ...]
    approvals: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Case:
    """A scenario, and where its process dies; nowhere when it is only watched.

    ``order`` is ``die``, or ``stop``: the process is halted there, until all is over. ``before``
    is where another has died already, when only whoever goes on after that comes by.
    """

    scenario: Scenario
    death: Pass | None = None
    before: Pass | None = None
    order: str = "die"
    fan: str = FAN
    conversation: UUID = field(default_factory=uuid4)
    run: UUID | None = None
    passes: list[Pass] = field(default_factory=list)
    over_at: float | None = None
    ending: Ending | None = None
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        places = [str(one) for one in (self.before, self.death) if one is not None]
        return f"{self.scenario} {'+'.join(places)}".strip()

    @property
    def orders(self) -> str:
        """What its file says."""
        places = [one for one in (self.before, self.death) if one is not None]
        return "; ".join(f"{self.order} {one.point} {one.count}" for one in places) or "watch"

    @property
    def has_died(self) -> bool:
        """Whether its process came by."""
        return str(self.death) in map(str, self.passes)

    @property
    def deaths(self) -> int:
        """How many processes have died for it."""
        passed = set(map(str, self.passes))
        return sum(str(one) in passed for one in (self.before, self.death))

    @property
    def recovery(self) -> float | None:
        """Seconds from the death to the next thing that somebody else does for the run."""
        if self.death is None or self.death.point in RESTS:
            return None
        for one, after in zip(self.passes, self.passes[1:], strict=False):
            if (one.point, one.count) == (self.death.point, self.death.count):
                return after.at - one.at
        return None


def deaths_of(watched: Case) -> list[Pass]:
    """Where a scenario's process can die: each pass; of the words of one answer, one."""
    deaths = []
    for _, group in groupby(watched.passes, key=lambda one: one.point):
        passes = list(group)
        deaths.append(passes[len(passes) // 2])
    return deaths

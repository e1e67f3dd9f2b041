"""What a walk has found: the matrix, its figures, and what went wrong."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from boxoffice.common import crash
from boxoffice.common.types import JsonObject
from tests.faults.cases import Case, deaths_of

# Passed outside of any conversation: the tests of e-mail die there.
ELSEWHERE = {"email_begun", "email_sent"}


@dataclass(slots=True)
class Matrix:
    """What the walk has found."""

    watched: list[Case] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    killed: int = 0
    """How many processes have died."""
    seconds: float = 0.0

    @property
    def not_reached(self) -> list[str]:
        """Points that no scenario passes, nor anybody who goes on after a death."""
        cases = (*self.watched, *self.cases)
        passed = {one.point for case in cases for one in case.passes} | ELSEWHERE
        return [point for point in crash.POINTS if point not in passed]

    @property
    def problems(self) -> list[str]:
        """Everything that went wrong, with the case that it went wrong in."""
        names = {str(case.conversation): str(case) for case in [*self.watched, *self.cases]}
        found = [
            f"{case}: {text}" for case in [*self.watched, *self.cases] for text in case.problems
        ]
        for text in self.broken:
            about, _, rest = text.partition(": ")
            found.append(f"{names[about]}: {rest}" if about in names else text)
        return found

    @property
    def recoveries(self) -> list[float]:
        """Seconds from each death to the next claim."""
        return sorted(case.recovery for case in self.cases if case.recovery is not None)

    def figures(self) -> JsonObject:
        """The figures, for machines."""
        times = self.recoveries
        scenarios = {case.scenario for case in self.watched}
        return {
            "points": len(crash.POINTS),
            "tools": len({scenario.tool for scenario in scenarios}),
            "decisions": len({scenario.decision for scenario in scenarios}),
            "scenarios": len(scenarios),
            "cases": len(self.cases),
            "not_reached": self.not_reached,
            "violations": self.problems,
            "recovery_seconds": _quantiles(times),
            "seconds": round(self.seconds, 1),
        }

    def lines(self) -> Iterator[str]:
        """The matrix as text: deaths survived by point and tool; ``!`` where something broke."""
        tools = sorted({case.scenario.tool for case in self.watched})
        width = max(map(len, crash.POINTS)) + 2
        yield "deaths by point and tool, over all decisions"
        yield " " * width + "  ".join(tools)
        for point in crash.POINTS:
            cells = [self._cell(point, tool).center(len(tool)) for tool in tools]
            yield point.ljust(width) + "  ".join(cells)
        figures = self.figures()
        yield (
            f"points × tools × decisions: {figures['points']} × {figures['tools']} × "
            f"{figures['decisions']}; cases: {figures['cases']}; "
            f"violations: {len(figures['violations'])}; {figures['seconds']} s"
        )
        recovery = figures["recovery_seconds"]
        yield "recovery after SIGKILL: " + ", ".join(f"{k} {v} s" for k, v in recovery.items())
        for point in self.not_reached:
            yield f"not reached: {point}"
        yield from self.problems

    def _cell(self, point: str, tool: str) -> str:
        cases = [
            case
            for case in self.cases
            if case.scenario.tool == tool and case.death and case.death.point == point
        ]
        if not cases:
            return "·"
        return f"{len(cases)}{'!' if any(case.problems for case in cases) else ''}"


def _quantiles(times: Sequence[float]) -> JsonObject:
    if len(times) < 2:
        return {}
    cuts = statistics.quantiles(times, n=20, method="inclusive")
    return {"p50": round(cuts[9], 2), "p95": round(cuts[18], 2), "max": round(times[-1], 2)}


def deaths(matrix: Matrix, order: str) -> Iterator[Case]:
    for watched in matrix.watched:
        for death in deaths_of(watched):
            yield Case(scenario=watched.scenario, death=death, order=order)


def second_deaths(matrix: Matrix) -> Iterator[Case]:
    """Where only those pass who go on after a death: each such point once for each scenario."""
    known = {(case.scenario, one.point) for case in matrix.watched for one in case.passes}
    for case in matrix.cases:
        for one in case.passes:
            if (case.scenario, one.point) not in known:
                known.add((case.scenario, one.point))
                yield Case(scenario=case.scenario, before=case.death, death=one)


def compare(matrix: Matrix) -> None:
    """A death changes nothing about the end."""
    endings = {case.scenario: case.ending for case in matrix.watched}
    for case in matrix.cases:
        if case.ending != endings[case.scenario]:
            case.problems.append(f"ended as {case.ending}, not as {endings[case.scenario]}")

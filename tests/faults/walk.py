"""The walk over every crash point, for every tool and every decision.

Each case is a conversation of its own with a death of its own; many live in one stack at a time.
"""

import json
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import batched
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx2
import psycopg

from agents.models import RUN_MACHINE, Run, RunState
from approvals.models import ApprovalRequest
from boxoffice.common.types import JsonObject
from tests.faults.cases import Case, Ending, Pass
from tests.faults.invariants import violations
from tests.faults.report import Matrix, compare, deaths, second_deaths
from tests.faults.scenarios import CALLS, Call, Floor, Scenario, Talk
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, last_tool_results, user_texts
from tests.support.stack import test_database_url
from tools.models import CallState, ToolCall

AT_ONCE = 24
STOPPED_AT_ONCE = 5
CASE_SECONDS = 90.0
PASSES_SECONDS = 15.0
RETRY_SECONDS = 30.0
ANSWER = "Pronto. Está tudo como foi pedido, e nada além disso."
# A run whose call has happened and was told to the model; one whose call was undone.
ACTED, UNDONE = "acted", "undone"
WITH_RESULTS = 3
# What a driver waits for: a state of the run, or one of the words above.
type Drive = Iterator[frozenset[str]]


def asks_what_it_is_told(body: JsonObject) -> Reply:
    """The model: proposes the call that the fan's message spells out, then says that it is done."""
    wanted = json.loads(user_texts(body)[-1])
    if last_tool_results(body):
        return Reply.hang(after=3, text=ANSWER) if wanted.get("hang") else Reply.text(ANSWER)
    return Reply.tools((wanted["tool"], wanted["arguments"]), text="Um momento, por favor.")


@dataclass(slots=True)
class Doors:
    """The site's REST doors, asked again while a web process is dead: each request counts once."""

    stack_url: str
    cast: Cast
    client: httpx2.Client

    def post(self, who: str, path: str, body: JsonObject) -> Any:
        """What a POST comes to."""
        url = f"{self.stack_url}/t/{self.cast.tenant.slug}/api/v1/{path}"
        headers = {
            "Authorization": f"Bearer {self.cast.token(who)}",
            "Idempotency-Key": str(uuid4()),
        }
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                answer = self.client.post(url, json=body, headers=headers)
            except httpx2.TransportError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
                continue
            if answer.is_success:
                return answer.json()
            raise AssertionError(f"{path}: {answer.status_code} {answer.text}")


class Walk:
    """Drives cases through a stack, many at a time."""

    def __init__(self, *, floor: Floor, doors: Doors, crash_dir: Path) -> None:
        self._floor = floor
        self._doors = doors
        self._crash_dir = crash_dir

    def go(self, cases: Sequence[Case], *, at_once: int = AT_ONCE) -> None:
        """Bring every case to its end; what goes wrong is among its ``problems``."""
        waiting = list(reversed(cases))
        live: dict[int, tuple[Case, Drive, frozenset[str], float]] = {}
        while waiting or live:
            while waiting and len(live) < at_once:
                case = waiting.pop()
                self._step(live, case, self._drive(case))
            states = self._states(case for case, *_ in live.values())
            for case, drive, wanted, deadline in list(live.values()):
                found = states.get(case.run, set())
                if found & wanted and self._has_died(case, wanted):
                    self._step(live, case, drive)
                elif time.monotonic() > deadline:
                    case.problems.append(self._stuck(case, found))
                    del live[id(case)]
            time.sleep(0.05)
        for case in cases:
            self._look(case)

    def wake(self, cases: Sequence[Case]) -> None:
        """Let the halted processes go on: they have missed everything."""
        for case in cases:
            for one in case.passes:
                if str(one) == str(case.death):
                    os.kill(one.pid, signal.SIGCONT)

    def _step(self, live: dict[int, Any], case: Case, drive: Drive) -> None:
        try:
            wanted = next(drive)
        except StopIteration:
            live.pop(id(case), None)
        except (AssertionError, httpx2.TransportError) as error:
            case.problems.append(f"{type(error).__name__}: {error}")
            live.pop(id(case), None)
        else:
            live[id(case)] = (case, drive, wanted, time.monotonic() + CASE_SECONDS)

    def _drive(self, case: Case) -> Drive:
        fan = case.fan = self._floor.fan()
        case.conversation = UUID(self._doors.post(fan, "conversations/", {})["id"])
        with self._floor.cast.scope():
            talk = Talk(fan=fan, conversation=case.conversation)
            call = CALLS[case.scenario.tool](self._floor, talk)
        (self._crash_dir / str(case.conversation)).write_text(f"{case.orders}\n")
        is_stopped = case.scenario.decision == "stop"
        wanted = {"tool": case.scenario.tool, "arguments": call.arguments, "hang": is_stopped}
        text = json.dumps(wanted)
        posted = self._doors.post(
            fan, f"conversations/{case.conversation}/messages/", {"text": text}
        )
        case.run = UUID(posted["run"])
        if is_stopped:
            yield frozenset({ACTED})
            self._doors.post(fan, f"runs/{case.run}/cancel/", {"compensate": True})
            yield frozenset({UNDONE})
        elif case.scenario.decision != "plain":
            yield frozenset({RunState.WAITING})
            self._decide(case, call)
        yield frozenset(RUN_MACHINE.terminal)

    def _decide(self, case: Case, call: Call) -> None:
        with self._floor.cast.scope():
            request = ApprovalRequest.objects.get(run_ref=case.run)
        path = f"approvals/{request.pk}"
        decider = case.scenario.decider(case.fan)
        match case.scenario.decision:
            case "approve":
                self._doors.post(decider, f"{path}/approve/", {})
            case "edit":
                self._doors.post(decider, f"{path}/approve/", {"arguments": call.edit})
            case "deny":
                self._doors.post(decider, f"{path}/deny/", {"reason": "Hoje não."})
            case "expire":
                _let_expire(request.pk)

    def _states(self, cases: Iterable[Case]) -> dict[UUID | None, set[str]]:
        """How the cases' runs stand."""
        runs = [case.run for case in cases if case.run]
        states: dict[UUID | None, set[str]] = defaultdict(set)
        with self._floor.cast.scope():
            rows = Run.objects.filter(pk__in=runs)
            for run, state, steps in rows.values_list("pk", "state", "last_seq"):
                states[run] |= {state} | {ACTED} if steps >= WITH_RESULTS else {state}
            undone = ToolCall.objects.filter(run_ref__in=runs, state=CallState.COMPENSATED)
            for run in undone.values_list("run_ref", flat=True):
                states[run].add(UNDONE)
        return states

    def _has_died(self, case: Case, wanted: frozenset[str]) -> bool:
        """Whether the death is over that the end may follow: it is seen before its process.

        A place where two may be at work, and one is enough, need not be passed as often again.
        """
        if case.death is None or not wanted & RUN_MACHINE.terminal:
            return True
        case.passes = self._passes(case)
        case.over_at = case.over_at or time.monotonic()
        return case.has_died or time.monotonic() > case.over_at + PASSES_SECONDS

    def _passes(self, case: Case) -> list[Pass]:
        path = self._crash_dir / str(case.conversation)
        lines = path.read_text().splitlines()[1:] if path.exists() else []
        counts: dict[str, int] = {}
        passes = []
        for line in lines:
            point, at, pid = line.split()
            counts[point] = counts.get(point, 0) + 1
            passes.append(Pass(point=point, count=counts[point], at=float(at), pid=int(pid)))
        return passes

    def _stuck(self, case: Case, found: set[str]) -> str:
        passed = " ".join(str(one) for one in self._passes(case))
        return f"the run is {sorted(found)} after {CASE_SECONDS:g} s; passed: {passed}"

    def _look(self, case: Case) -> None:
        case.passes = self._passes(case)
        with self._floor.cast.scope():
            run = Run.objects.filter(pk=case.run).first()
            if run is None:
                return
            calls = ToolCall.objects.filter(conversation_ref=case.conversation).order_by("id")
            requests = ApprovalRequest.objects.filter(conversation_ref=case.conversation)
            case.ending = Ending(
                state=run.state,
                kinds=tuple(run.steps.order_by("seq").values_list("kind", flat=True)),
                calls=tuple(calls.values_list("tool", "state", "reason_code")),
                approvals=tuple(requests.order_by("id").values_list("state", flat=True)),
            )


def _let_expire(request_id: UUID) -> None:
    """The request's time is over; what a request says never changes otherwise."""
    table = "approvals_approvalrequest"
    with psycopg.connect(test_database_url()) as owner:
        owner.execute("SET LOCAL boxoffice.tenant = '*'")
        owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        moved = owner.execute(
            f"UPDATE {table} SET expires_at = now() - interval '1 second' WHERE id = %s",
            [request_id],
        )
        assert moved.rowcount == 1
        owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where a walk takes place: a house, the site's address, and the nursery's folder."""

    floor: Floor
    url: str
    home: Path

    @contextmanager
    def walk(self) -> Iterator[Walk]:
        """A walk, with a client of its own."""
        with httpx2.Client(timeout=10) as client:
            yield Walk(
                floor=self.floor,
                doors=Doors(self.url, self.floor.cast, client),
                crash_dir=self.home / "crash",
            )

    def violations(self, *, killed: int) -> list[str]:
        """What does not hold in the database, and who has died that should not have."""
        found = violations(self.floor.cast.tenant, known=frozenset(self.floor.made))
        return found + _odd_deaths(self.home / "deaths", killed)


type Choose = Callable[[Case], bool]


def die_everywhere(ground: Ground, scenarios: Sequence[Scenario], choose: Choose) -> Matrix:
    """Watch each scenario once, then let a process die at each pass that it has made."""
    begun = time.monotonic()
    with ground.walk() as tour:
        matrix = _watched(tour, scenarios)
        matrix.cases = [case for case in deaths(matrix, "die") if choose(case)]
        tour.go(matrix.cases)
        later = [case for case in second_deaths(matrix) if choose(case)]
        tour.go(later)
        matrix.cases += later
    compare(matrix)
    matrix.killed = sum(case.deaths for case in matrix.cases)
    matrix.broken = ground.violations(killed=matrix.killed)
    matrix.cases = [case for case in matrix.cases if case.has_died or case.problems]
    matrix.seconds = time.monotonic() - begun
    return matrix


def stop_everywhere(
    ground: Ground, scenarios: Sequence[Scenario], choose: Choose, *, killed: int = 0
) -> Matrix:
    """The same, but the processes are halted instead, and go on after another has taken over.

    ``killed``: how many processes were killed there before.
    """
    begun = time.monotonic()
    with ground.walk() as tour:
        matrix = _watched(tour, scenarios)
        matrix.cases = [case for case in deaths(matrix, "stop") if choose(case)]
        # Who is halted works on nothing: a few at a time.
        for cases in batched(matrix.cases, STOPPED_AT_ONCE):
            tour.go(cases, at_once=STOPPED_AT_ONCE)
            tour.wake(cases)
        # Whoever has gone on has had time to do harm once it has done something else.
        _watched(tour, [*scenarios] * STOPPED_AT_ONCE)
    compare(matrix)
    matrix.broken = ground.violations(killed=killed)
    matrix.seconds = time.monotonic() - begun
    return matrix


def _watched(tour: Walk, scenarios: Sequence[Scenario]) -> Matrix:
    matrix = Matrix(watched=[Case(scenario=scenario) for scenario in scenarios])
    tour.go(matrix.watched)
    return matrix


def _odd_deaths(path: Path, expected: int) -> list[str]:
    """Each case has killed one process, and no process has died of anything else."""
    lines = path.read_text().splitlines() if path.exists() else []
    odd = [f"died by itself: {line}" for line in lines if line.split()[1] != "-9"]
    if len(lines) - len(odd) != expected:
        odd.append(f"{len(lines) - len(odd)} processes were killed in {expected} cases")
    return odd

"""What the guard costs per call, with few rules and with many."""

import time
from uuid import uuid4

from approvals.policies import versions
from benchmarks.sizes import Size
from benchmarks.stage import Stage, make_stage
from benchmarks.table import Figure, Row, quantile
from boxoffice.tenancy.scope import tenant_scope
from tools import guard
from tools.permissions import Caller, grant_of
from tools.spec import ToolContext

TOOL = "search_seats"
ARGUMENTS = {
    "event_id": "019ae000-0000-7000-8000-000000000003",
    "quantity": 2,
    "max_price_brl": 300.0,
    "adjacent": True,
}
# As people write them; none matches, so that each of them is asked.
CONDITIONS = (
    "args.quantity > {n}",
    "has(args.max_price_brl) && args.max_price_brl > {n}.5 && fan.days_here < -1",
    "run.is_tainted && tool.risk != 'read' || args.event_id == 'e{n}'",
    "fan.role == 'r{n}' || tier.slug in ['t{n}', 'u{n}']",
    "now.getHours() > 24 || args.event_id.startsWith('x{n}')",
)


def measure(size: Size) -> Figure:
    """Time ``guard.check`` by itself: schema, grant, every rule; the versions are loaded once."""
    rows = [row for rules in size.rules for row in _rows(rules, size.guard_calls)]
    return Figure(
        name="guard",
        title=f"The guard per call, with rules in force ({size.guard_calls} calls each)",
        rows=rows,
        remarks=[
            "Every rule is about the tool, and none matches: all of them are evaluated.",
            "Without the query for the grant, which also tells which version is in force.",
        ],
    )


def _rows(rules: int, calls: int) -> list[Row]:
    stage = make_stage(f"bench-guard-{rules}", fans=1, tools=[TOOL])
    with tenant_scope(stage.tenant.pk):
        draft = versions.draft_create(source=_source(rules))
        versions.version_activate(version_id=draft.pk)
        started = time.perf_counter()
        _checks(stage, 1)
        first = (time.perf_counter() - started) * 1000
        times = _checks(stage, calls)
    return [
        Row(
            figure=f"{rules} rule{'s' if rules > 1 else ''}, p50",
            value=quantile(times, 0.5),
            unit="ms",
        ),
        Row(
            figure=f"{rules} rule{'s' if rules > 1 else ''}, p95",
            value=quantile(times, 0.95),
            unit="ms",
            expected="< 2 ms" if rules == 50 else "",
        ),
        Row(figure="  first call of a process (loads, compiles)", value=first, unit="ms"),
    ]


def _source(rules: int) -> str:
    return "".join(
        f'- {{name: rule {n}, tools: [{TOOL}], effect: deny, when: "{_condition(n)}"}}\n'
        for n in range(rules)
    )


def _condition(n: int) -> str:
    return CONDITIONS[n % len(CONDITIONS)].format(n=n + 1_000_000)


def _checks(stage: Stage, calls: int) -> list[float]:
    (fan,) = stage.fans
    caller = Caller(
        tenant_id=stage.tenant.pk,
        user_id=fan.pk,
        time_zone=stage.tenant.time_zone,
        language=stage.tenant.language,
    )
    context = ToolContext(
        tenant_id=caller.tenant_id,
        user_id=caller.user_id,
        time_zone=caller.time_zone,
        language=caller.language,
        idempotency_key=str(uuid4()),
    )
    grant = grant_of(caller)
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        verdict = guard.check(
            tool=TOOL, arguments=ARGUMENTS, grant=grant, caller=caller, context=context
        )
        times.append((time.perf_counter() - started) * 1000)
        assert verdict.code == "allowed", verdict
    return times

"""A call as the rules see it."""

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from approvals.policies.rules import Effect, Facts
from boxoffice.common.clock import now
from boxoffice.common.types import JsonObject
from tools.permissions import Caller, Grant
from tools.spec import Gate, Risk, ToolInput, ToolSpec

_DEFAULTS = {
    Gate.NONE: Effect.ALLOW,
    Gate.FAN: Effect.CONFIRM,
    Gate.REVIEWER: Effect.APPROVE,
}


def default_of(spec: ToolSpec) -> Effect:
    """What holds where no rule says anything: the tool's gate, and a human for what is final."""
    if spec.risk is Risk.DESTRUCTIVE and spec.gate is Gate.NONE:
        return Effect.APPROVE
    return _DEFAULTS[spec.gate]


def floor_of(spec: ToolSpec, caller: Caller) -> Effect:
    """What no rule lets go below, once text from outside was read: the human of the tool's gate."""
    if not (caller.is_tainted and spec.is_final):
        return Effect.ALLOW
    return Effect.CONFIRM if spec.gate is Gate.FAN else Effect.APPROVE


def facts_of(
    spec: ToolSpec,
    arguments: ToolInput,
    grant: Grant,
    caller: Caller,
    preview: Callable[[], JsonObject | None],
    at: datetime | None = None,
) -> Facts:
    """The facts of one call; ``preview`` is made only if a rule reads it.

    Arguments without a value are left out, so that ``has(args.…)`` says whether one was given.
    """
    return Facts(
        tool=spec.name,
        tier=grant.tier,
        default=default_of(spec),
        floor=floor_of(spec, caller),
        is_destructive=spec.risk is Risk.DESTRUCTIVE,
        is_anonymous=grant.is_anonymous,
        may_ask_reviewer=grant.can_approve_human,
        values={
            "args": arguments.model_dump(mode="json", exclude_none=True),
            "tool": {"name": spec.name, "risk": spec.risk.value, "owner": spec.owner},
            "fan": {
                "id": caller.user_id or 0,
                "role": grant.role,
                "is_anonymous": grant.is_anonymous,
                "days_here": grant.days_here,
                "language": caller.language,
            },
            "tier": {"slug": grant.tier, "may_ask_reviewer": grant.can_approve_human},
            "tenant": {"slug": grant.tenant, "time_zone": caller.time_zone},
            "run": {"is_tainted": caller.is_tainted},
            "now": _local(at or now(), caller.time_zone),
        },
        preview=lambda: preview() or {},
    )


def seen_of(grant: Grant, caller: Caller) -> JsonObject:
    """What of the facts cannot be found out later."""
    return {
        "tier": grant.tier,
        "role": grant.role,
        "may_ask_reviewer": grant.can_approve_human,
        "days_here": grant.days_here,
        "is_tainted": caller.is_tainted,
    }


def _local(moment: datetime, zone: str) -> datetime:
    """The instant by the tenant's clock, with the offset as a number: rules read no zone names."""
    local = moment.astimezone(ZoneInfo(zone))
    return local.replace(tzinfo=timezone(local.utcoffset() or timedelta(0)))

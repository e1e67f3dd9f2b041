"""Which tools there are and have been, and which of them a tenant has switched off."""

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Count, Max

from boxoffice.audit import services as audit
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Forbidden, InvalidInput, NotFound
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tier
from boxoffice.tenancy.principals import Principal
from tools import registry
from tools.models import Tool, ToolCall, ToolSwitch, ToolVersion
from tools.spec import ToolSpec

REASON_MIN, REASON_MAX = 3, 500
CALLED_DAYS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What a registration has changed: names of tools."""

    new: list[str]
    changed: list[str]
    gone: list[str]

    def as_json(self) -> JsonObject:
        """For those who asked for it."""
        return asdict(self)


def tools_register() -> Registered:
    """Write down each tool of the code with its version; what was written before is left.

    A tool that the code no longer has is marked so, and its rows stay: calls name its versions.
    Safe to repeat, and safe while others do the same.
    """
    specs = {spec.name: spec for spec in registry.all_tools()}
    with transaction.atomic():
        known = {row.name: row for row in Tool.objects.select_for_update().order_by("name")}
        new = [name for name in specs if name not in known]
        changed = [name for name in specs if name in known and _differs(known[name])]
        gone = [name for name, row in known.items() if row.is_present and name not in specs]
        for name in [*new, *changed]:
            Tool.objects.update_or_create(name=name, defaults=_as_registered(name))
        Tool.objects.filter(name__in=gone).update(is_present=False)
        ids = dict(Tool.objects.filter(name__in=specs).values_list("name", "pk"))
        ToolVersion.objects.bulk_create(
            [
                ToolVersion(tool_id=ids[name], digest=spec.version, contract=spec.contract)
                for name, spec in specs.items()
            ],
            ignore_conflicts=True,
        )
    return Registered(new=new, changed=changed, gone=gone)


def _as_registered(name: str) -> JsonObject:
    spec = registry.find(name)
    if spec is None:
        raise NotFound(f"There is no tool {name!r}.")
    return {
        "owner": spec.owner,
        "risk": spec.risk.value,
        "version": spec.version,
        "successor": spec.successor,
        "is_present": True,
    }


def _differs(row: Tool) -> bool:
    return any(getattr(row, field) != value for field, value in _as_registered(row.name).items())


def tool_switch(
    *, tool: str, is_off: bool, reason: str, by: Principal | None, dry_run: bool = False
) -> bool:
    """Switch a tool of the open tenant off or on; whether that changed anything, or would.

    It holds for every call that is dispatched from then on, also of runs that are at work and of
    calls that a human has approved. ``by`` is ``None`` for the platform's operator. Raises
    ``Forbidden`` without the right ``configure``, ``NotFound``, and ``InvalidInput`` for a reason
    that is too short or too long.
    """
    if by is not None and not by.may("configure"):
        raise Forbidden("Only those who configure this box office may switch tools.")
    if registry.find(tool) is None:
        raise NotFound(f"There is no tool {tool[:80]!r}.")
    reason = reason.replace("\x00", "").strip()
    if not REASON_MIN <= len(reason) <= REASON_MAX:
        raise InvalidInput(f"reason: {REASON_MIN} to {REASON_MAX} characters.")
    if dry_run:
        return ToolSwitch.objects.filter(tool=tool, is_off=True).exists() != is_off
    actor = "system:operator" if by is None else by.key
    with transaction.atomic():
        ToolSwitch.objects.get_or_create(
            tool=tool, defaults={"is_off": False, "reason": "", "changed_by": ""}
        )
        row = ToolSwitch.objects.select_for_update().get(tool=tool)
        if row.is_off == is_off:
            return False
        row.is_off, row.reason, row.changed_by = is_off, reason, actor
        row.save()
        audit.record(
            action=f"tools.tool.switched_{'off' if is_off else 'on'}",
            actor=actor,
            target=f"tool:{tool}",
            details={"tool": tool, "reason": reason},
        )
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRow:
    """A tool as a tenant has it. ``called`` counts the calls of the last ``CALLED_DAYS`` days."""

    tool: str
    owner: str
    risk: str
    version: str
    successor: str
    tiers: list[str]
    per_minute: int | None
    tenant_per_minute: int | None
    is_off: bool
    reason: str
    changed_by: str
    changed_at: datetime | None
    called: int
    fans: int
    last_called_at: datetime | None

    def as_json(self) -> JsonObject:
        """With its instants as text."""
        row = asdict(self)
        for name in ("changed_at", "last_called_at"):
            row[name] = row[name] and row[name].isoformat()
        return row


def tools_of_tenant() -> list[ToolRow]:
    """The tools as the open tenant has them, by name."""
    switches = {row.tool: row for row in ToolSwitch.objects.all()}
    tiers = list(Tier.objects.order_by("slug").values_list("slug", "tools"))
    return [_row(spec, switches.get(spec.name), tiers) for spec in registry.all_tools()]


def tool_of_tenant(name: str) -> ToolRow | None:
    """One tool as the open tenant has it; ``None`` if the code does not have it any more."""
    spec = registry.find(name)
    if spec is None:
        return None
    tiers = list(Tier.objects.order_by("slug").values_list("slug", "tools"))
    return _row(spec, ToolSwitch.objects.filter(tool=name).first(), tiers)


def _row(spec: ToolSpec, switch: ToolSwitch | None, tiers: list[tuple[str, list[str]]]) -> ToolRow:
    # Ids are ordered by time, and the index by tool and id: only the days asked for are read.
    since = UUID(int=int((now() - timedelta(days=CALLED_DAYS)).timestamp() * 1000) << 80)
    calls = ToolCall.objects.filter(tool=spec.name, pk__gte=since).aggregate(
        called=Count("pk"), fans=Count("user_id", distinct=True), last=Max("created_at")
    )
    return ToolRow(
        tool=spec.name,
        owner=spec.owner,
        risk=spec.risk.value,
        version=spec.version,
        successor=spec.successor,
        tiers=[slug for slug, tools in tiers if spec.name in tools or (spec.is_core and tools)],
        per_minute=spec.rate.per_minute if spec.rate else None,
        tenant_per_minute=spec.rate.tenant_per_minute if spec.rate else None,
        is_off=switch is not None and switch.is_off,
        reason=switch.reason if switch else "",
        changed_by=switch.changed_by if switch else "",
        changed_at=switch.changed_at if switch else None,
        called=calls["called"],
        fans=calls["fans"],
        last_called_at=calls["last"],
    )

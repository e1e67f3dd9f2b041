"""The ledger as rules are tried on it (the port of the approvals room)."""

import heapq
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q, QuerySet

from approvals.policies.rules import REFUSED_BY_POLICY, Effect, Facts
from approvals.ports import PastCall, ShadowCount, ToolInfo
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Membership, Tenant, Tier
from boxoffice.tenancy.principals import ANONYMOUS
from boxoffice.tenancy.scope import current_tenant_id
from tools import guard, registry
from tools.facts import facts_of
from tools.models import ToolCall
from tools.permissions import NO_GRANT, Caller, Grant
from tools.spec import ToolSpec

BATCH = 200


class Ledger:
    """The calls of the open tenant, as far as rules are concerned."""

    def tools(self) -> list[ToolInfo]:
        """The tools of the registry."""
        return [
            ToolInfo(
                name=spec.name,
                risk=spec.risk.value,
                owner=spec.owner,
                schema=spec.input_schema(),
                has_preview=spec.preview is not None,
            )
            for spec in registry.all_tools()
        ]

    def past_calls(self, *, since: datetime, most: int) -> Iterator[PastCall]:
        """The newest calls that came as far as the rules, newest first."""
        people = _People()
        streams = [_newest(spec.name, since) for spec in registry.all_tools()]
        newest = heapq.merge(*streams, key=lambda call: call.pk, reverse=True)
        for _, call in zip(range(most), newest, strict=False):
            yield people.past_call(call)

    def shadow_counts(self, label: str) -> list[ShadowCount]:
        """What a version in shadow would have done, by verdict."""
        rows = _in_shadow(label).order_by().values_list("verdict", "shadow_verdict")
        counted = rows.annotate(calls=Count("pk"))
        return [ShadowCount(effect=one, shadow=other, calls=n) for one, other, n in counted]

    def shadow_differences(self, label: str, *, most: int) -> list[JsonObject]:
        """The newest calls on which it differs from what was done."""
        rows = _in_shadow(label).exclude(verdict=F("shadow_verdict")).select_related("user")
        return [
            {
                "call": str(call.pk),
                "created_at": call.created_at,
                "tool": call.tool,
                "who": call.user.get_username() if call.user else "",
                "arguments": call.arguments,
                "effect": call.verdict,
                "shadow": call.shadow_verdict,
                "rule": call.shadow_rule,
            }
            for call in rows.defer("result", "error").order_by("-pk")[:most]
        ]


def _in_shadow(label: str) -> QuerySet[ToolCall]:
    return ToolCall.objects.filter(shadow_version=label).exclude(shadow_version="")


_JUDGED = Q(verdict__in=[Effect.ALLOW, Effect.CONFIRM, Effect.APPROVE]) | Q(
    verdict=Effect.DENY, reason_code__in=REFUSED_BY_POLICY
)


def _newest(tool: str, since: datetime) -> Iterator[ToolCall]:
    """The calls of one tool, newest first, in batches by its index."""
    rows = ToolCall.objects.filter(_JUDGED, tool=tool, pk__gte=_first_id(since))
    rows = rows.select_related("user", "approval").defer("result", "error").order_by("-pk")
    batch = list(rows[:BATCH])
    while batch:
        yield from batch
        batch = list(rows.filter(pk__lt=batch[-1].pk)[:BATCH])


def _first_id(moment: datetime) -> UUID:
    """The smallest of the time-ordered ids that were given from that moment on."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


class _People:
    """Who the calls were for; as they stand now, where a call does not say how they stood."""

    def __init__(self) -> None:
        self.tenant = Tenant.objects.get(pk=current_tenant_id())
        self.visitor = Tier.objects.filter(is_anonymous=True).first()
        self.members: dict[int, Membership | None] = {}

    def past_call(self, call: ToolCall) -> PastCall:
        """The call with its facts."""
        return PastCall(
            call_id=call.pk,
            created_at=call.created_at,
            tool=call.tool,
            who=call.user.get_username() if call.user else "",
            arguments=call.arguments if isinstance(call.arguments, dict) else {},
            effect=Effect(call.verdict),
            facts=self._facts(call),
        )

    def _facts(self, call: ToolCall) -> Facts | None:
        spec = registry.find(call.tool)
        try:
            parsed = guard.parse(spec, call.arguments) if spec is not None else None
        except guard.ArgumentsInvalid:
            return None
        if spec is None or parsed is None:
            return None
        caller = Caller(
            tenant_id=self.tenant.pk,
            user_id=call.user_id,
            time_zone=self.tenant.time_zone,
            language=self.tenant.language,
            is_tainted=bool((call.seen or {}).get("is_tainted")),
        )
        grant = self._grant(call)
        return facts_of(spec, parsed, grant, caller, _kept_preview(spec, call), call.created_at)

    def _grant(self, call: ToolCall) -> Grant:
        seen: dict[str, Any] = call.seen or self._standing(call.user_id)
        return Grant(
            role=seen["role"],
            tools=frozenset({call.tool}),
            can_approve_human=seen["may_ask_reviewer"],
            tier=seen["tier"],
            tenant=self.tenant.slug,
            days_here=seen["days_here"],
        )

    def _standing(self, user_id: int | None) -> dict[str, Any]:
        tier, role = self.visitor, ANONYMOUS
        if user_id is not None:
            if user_id not in self.members:
                rows = Membership.objects.select_related("tier")
                self.members[user_id] = rows.filter(user_id=user_id).first()
            member = self.members[user_id]
            tier, role = (member.tier, member.role) if member else (None, NO_GRANT.role)
        return {
            "role": role,
            "tier": tier.slug if tier else "",
            "may_ask_reviewer": tier.can_approve_human if tier else False,
            "days_here": 0,
        }


def _kept_preview(spec: ToolSpec, call: ToolCall) -> Callable[[], JsonObject | None]:
    """The preview that was shown at the time; there is none of a call that nobody was asked for."""

    def kept() -> JsonObject | None:
        if spec.preview is None:
            return None
        if call.approval is None or call.approval.preview is None:
            raise LookupError("No preview was kept.")
        return dict(call.approval.preview)

    return kept

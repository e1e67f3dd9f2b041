"""What a caller may be offered, read anew each time: an offer is not a permission."""

from dataclasses import dataclass
from uuid import UUID

from boxoffice.tenancy.models import Membership, Tier
from boxoffice.tenancy.principals import ANONYMOUS
from tools import registry
from tools.spec import Risk, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """On whose behalf a call is made; ``user_id`` is ``None`` for an anonymous visitor."""

    tenant_id: UUID
    user_id: int | None
    time_zone: str
    language: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The caller's standing at this moment."""

    role: str
    tools: frozenset[str]
    can_approve_human: bool

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody has signed in."""
        return self.role == ANONYMOUS


NO_GRANT = Grant(role="none", tools=frozenset(), can_approve_human=False)


def grant_of(caller: Caller) -> Grant:
    """The caller's grant now; ``NO_GRANT`` when the membership is gone. One query, in scope."""
    if caller.user_id is None:
        tier = Tier.objects.filter(is_anonymous=True).first()
        return NO_GRANT if tier is None else _grant(ANONYMOUS, tier)
    membership = (
        Membership.objects.filter(user_id=caller.user_id, is_active=True, user__is_active=True)
        .select_related("tier")
        .first()
    )
    return NO_GRANT if membership is None else _grant(membership.role, membership.tier)


def _grant(role: str, tier: Tier) -> Grant:
    return Grant(role=role, tools=frozenset(tier.tools), can_approve_human=tier.can_approve_human)


def is_granted(spec: ToolSpec, grant: Grant) -> bool:
    """Whether the grant covers the tool; visitors only ever read."""
    if grant.is_anonymous and spec.risk is not Risk.READ:
        return False
    return spec.name in grant.tools


def offered_tools(grant: Grant) -> list[ToolSpec]:
    """The tools to put before the model, by name."""
    return [spec for spec in registry.all_tools() if is_granted(spec, grant)]

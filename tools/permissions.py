"""What a caller may be offered, read anew each time: an offer is not a permission."""

from dataclasses import dataclass
from uuid import UUID

from boxoffice.common.batch import Answer, Batch
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
    is_tainted: bool = False  # text from outside has been read in the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The caller's standing at this moment, and the versions of rules in force and in shadow.

    ``circuit`` is the tier's slug if the tier has circuits of its own. ``off`` are the tools that
    the tenant has switched off, granted or not.
    """

    role: str
    tools: frozenset[str]
    can_approve_human: bool
    tier: str = ""
    tenant: str = ""
    days_here: int = 0
    policy: UUID | None = None
    shadow: UUID | None = None
    circuit: str = ""
    off: frozenset[str] = frozenset()

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody has signed in."""
        return self.role == ANONYMOUS


NO_GRANT = Grant(role="none", tools=frozenset(), can_approve_human=False)


# The versions of rules and what is switched off come along: nothing else is asked before a call.
# (What is joined in are constants of this module.)
_VERSION = """(
  SELECT p.id FROM approvals_policyversion p WHERE p.tenant_id = t.tenant_id AND p.state = '{}'
)"""
_OFF = """ARRAY(
  SELECT s.tool::text FROM tools_toolswitch s WHERE s.tenant_id = t.tenant_id AND s.is_off
)"""
_STANDING = f"""t.tools, t.can_approve_human, t.slug, n.slug,
  CASE WHEN t.dedicated_circuit THEN t.slug ELSE '' END,
  {_OFF}, {_VERSION.format("active")}, {_VERSION.format("shadow")}"""
_OF_MEMBER = f"""
SELECT m.role, extract(day FROM now() - m.created_at)::int, {_STANDING}
FROM tenancy_membership m
JOIN tenancy_tier t ON t.id = m.tier_id JOIN tenancy_user u ON u.id = m.user_id
JOIN tenancy_tenant n ON n.id = m.tenant_id
WHERE m.tenant_id = %s AND m.user_id = %s AND m.is_active AND u.is_active LIMIT 1
"""  # noqa: S608
_OF_VISITOR = f"""
SELECT %s, 0, {_STANDING}
FROM tenancy_tier t JOIN tenancy_tenant n ON n.id = t.tenant_id
WHERE t.tenant_id = %s AND t.is_anonymous LIMIT 1
"""  # noqa: S608


def grant_of(caller: Caller) -> Grant:
    """The caller's grant now; ``NO_GRANT`` when the membership is gone. One query, in scope."""
    batch = Batch()
    grant_ask(batch, caller)
    return grant_read(*batch.send())


def grant_ask(batch: Batch, caller: Caller) -> None:
    """Add the question for the caller's grant to a batch; ``grant_read`` reads the answer."""
    if caller.user_id is None:
        batch.add(_OF_VISITOR, [ANONYMOUS, caller.tenant_id])
    else:
        batch.add(_OF_MEMBER, [caller.tenant_id, caller.user_id])


def grant_read(answer: Answer) -> Grant:
    """The grant that a batch has answered with."""
    for role, days_here, tools, can_approve_human, tier, tenant, circuit, *more in answer.rows:
        off, policy, shadow = more
        return Grant(
            role=role,
            tools=frozenset(tools),
            can_approve_human=can_approve_human,
            tier=tier,
            tenant=tenant,
            days_here=days_here,
            policy=policy,
            shadow=shadow,
            circuit=circuit,
            off=frozenset(off),
        )
    return NO_GRANT


def is_granted(spec: ToolSpec, grant: Grant) -> bool:
    """Whether the grant covers the tool; visitors only ever read."""
    if grant.is_anonymous and spec.risk is not Risk.READ:
        return False
    return spec.name in grant.tools or (spec.is_core and bool(grant.tools))


def is_usable(spec: ToolSpec, grant: Grant) -> bool:
    """Whether the grant covers the tool, and the tenant has not switched it off."""
    return is_granted(spec, grant) and spec.name not in grant.off


def offered_tools(grant: Grant, *, with_core: bool = False) -> list[ToolSpec]:
    """The tools to put before the model, by name; those that come with any other if asked for."""
    return [
        spec
        for spec in registry.all_tools()
        if is_usable(spec, grant) and (with_core or not spec.is_core)
    ]

"""Rules in force, and calls put to them."""

from typing import Any
from uuid import uuid4

from approvals.models import PolicyVersion
from approvals.policies import versions
from boxoffice.tenancy.models import Tenant, User
from tests.support.cast import Cast
from tests.support.dispatching import call_run
from tools import effects
from tools.models import ToolCall
from tools.outcomes import CallReport
from tools.permissions import Caller


def put_in_force(source: str, *, shadow: bool = False) -> PolicyVersion:
    """A new version, in force (or in shadow); the tenant's scope is open."""
    draft = versions.draft_create(source=source)
    bring = versions.version_shadow if shadow else versions.version_activate
    return bring(version_id=draft.pk)


def caller_of(cast: Cast, name: str | None = "ana", **changes: Any) -> Caller:
    """Somebody on whose behalf calls are made."""
    return caller_in(Tenant.objects.get(pk=cast.tenant.pk), name, **changes)


def caller_in(tenant: Tenant, name: str | None, **changes: Any) -> Caller:
    """A user by name, or a visitor, in a tenant."""
    fields = {
        "tenant_id": tenant.pk,
        "user_id": User.objects.get(username=name).pk if name else None,
        "time_zone": tenant.time_zone,
        "language": tenant.language,
    }
    return Caller(**(fields | changes))


def propose(caller: Caller, tool: str, arguments: Any) -> ToolCall:
    """A call as a model proposes it."""
    (call,) = effects.calls_propose(
        caller=caller,
        proposals=[effects.Proposal(call_id="c", tool=tool, arguments=arguments)],
        origin="test",
        run_id=uuid4(),
        conversation_id=uuid4(),
        key_prefix=str(uuid4()),
    )
    return call


def put(caller: Caller, tool: str, arguments: Any) -> CallReport:
    """Propose a call and dispatch it."""
    call = propose(caller, tool, arguments)
    return call_run(call_id=call.pk, caller=caller)

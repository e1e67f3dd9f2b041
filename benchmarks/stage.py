"""A box office with fans for the benchmarks, and runs to be worked on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest import mock

from django.test import Client

from agents import handout, notices, services
from agents.models import Conversation, Run
from boxoffice.tenancy.models import Membership, Role, Tenant, Tier, User
from boxoffice.tenancy.principals import Principal, principal_for
from boxoffice.tenancy.scope import tenant_scope
from tests.ticketing.factory import make_house

# No budget ends a run of a benchmark.
LIMITS = {
    "max_steps": 1_000,
    "max_tokens_per_request": 10_000_000,
    "max_wall_seconds": 3_600,
    "max_run_cost_micros": 10**12,
    "max_day_cost_micros": 10**12,
    "rate_per_min": 1_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One tenant and its fans."""

    tenant: Tenant
    fans: list[User]

    def principal(self, fan: User) -> Principal:
        """A fan as the doors see them."""
        return principal_for(tenant=self.tenant, user=fan)

    def conversation(self, fan: User) -> Conversation:
        """A new conversation; in the tenant's scope."""
        return services.conversation_create(principal=self.principal(fan), language="pt-br")

    def post(self, conversation: Conversation, fan: User, text: str) -> Run:
        """A message and the run that answers it; in the tenant's scope."""
        posted = services.message_post(
            principal=self.principal(fan), conversation_id=conversation.pk, text=text
        )
        assert posted.run is not None
        return posted.run


def make_stage(slug: str, *, fans: int, tools: list[str]) -> Stage:
    """A tenant with an event, and ``fans`` members who are granted ``tools``."""
    tenant = make_house(slug).tenant
    Tenant.objects.filter(pk=tenant.pk).update(max_concurrent_runs=10_000)
    names = [f"{slug}-{number}" for number in range(fans)]
    made = User.objects.bulk_create(User(username=n, email=f"{n}@example.com") for n in names)
    with tenant_scope(tenant.pk):
        Tier.objects.filter(slug="pro").update(
            tools=tools, model_alias="claude-sonnet-4-7", **LIMITS
        )
        tier = Tier.objects.get(slug="pro")
        Membership.objects.bulk_create(
            Membership(tenant=tenant, user=user, tier=tier, role=Role.FAN) for user in made
        )
    return Stage(tenant=tenant, fans=made)


def wish(*, steps: int = 1, tokens: int = 0, delay_ms: float = 0.0) -> str:
    """What to write to the paced model: its answer has ``steps`` model calls."""
    return json.dumps({"steps": steps, "tokens": tokens, "delay_ms": delay_ms})


def session_cookie(fan: User) -> str:
    """The session of a browser in which the fan has signed in."""
    client = Client()
    client.force_login(fan)
    return client.cookies["sessionid"].value


@contextmanager
def no_wake_ups() -> Iterator[None]:
    """Messages are stored, and no worker or page is told."""
    with (
        mock.patch.object(handout, "hand_out", lambda tenant_id, run_id: None),
        mock.patch.object(notices, "group_tell", _nobody),
    ):
        yield


def _nobody(group: str, notice: dict[str, object]) -> None:
    """Tell nobody."""

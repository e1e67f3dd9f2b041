"""A named cast with levels of access, in two small box offices.

`ana` (pro) and `fabio` (free) are fans, `rita` is a reviewer and `ada` the tenant admin of
`arena`; `teo` and `rui` belong to `teatro`. Rows are committed: workers see them.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from django.contrib.auth.models import AnonymousUser
from guardian.shortcuts import assign_perm

from agents import services
from agents.models import Conversation, Message, Run, Speaker
from boxoffice.tenancy.models import Membership, Role, Tenant, Tier, User
from boxoffice.tenancy.principals import Principal, principal_for, token_create
from boxoffice.tenancy.scope import Scope, tenant_scope
from boxoffice.ticketing.models import Hold, Order, Refund, SeatClaim
from tests.ticketing.factory import OFTEN, make_house
from tests.ticketing.factory import House as Seats
from tools.models import ToolCall

READS = ["search_events", "search_seats"]
FREE = [
    *READS,
    "hold_seats",
    "release_hold",
    "place_order",
    "get_order_status",
    "refund_order",
    "create_ticket",
]
PRO = [*FREE, "send_email"]
PEOPLE = {
    "arena": {"ana": ("fan", "pro"), "fabio": ("fan", "free"), "rita": ("reviewer", "pro")}
    | {"rosa": ("reviewer", "pro"), "ada": ("admin", "pro")},
    "teatro": {"teo": ("fan", "pro"), "rui": ("reviewer", "pro")},
}
RIGHTS = {
    Role.REVIEWER: ("review_actions", "answer_fans"),
    Role.ADMIN: (
        "review_actions",
        "answer_fans",
        "configure",
        "view_costs",
        "replay_runs",
        "export_calls",
    ),
}


@dataclass
class Cast:
    """One tenant, its people by name, its seats, and what became of them."""

    tenant: Tenant
    seats: Seats
    tokens: dict[str, str] = field(default_factory=dict)

    def scope(self) -> AbstractContextManager[Scope]:
        """Work inside the tenant."""
        return tenant_scope(self.tenant.pk)

    def user(self, name: str) -> User:
        """A user by name."""
        return User.objects.get(username=name)

    def principal(self, name: str) -> Principal:
        """A member of this tenant."""
        return principal_for(tenant=self.tenant, user=self.user(name))

    def token(self, name: str) -> str:
        """A bearer token of a member."""
        if name not in self.tokens:
            self.tokens[name] = token_create(tenant=self.tenant, user=self.user(name))
        return self.tokens[name]

    def crowd(self, count: int) -> list[str]:
        """The names of further fans of tier pro: one alone may do some things only so often."""
        names = [f"{self.tenant.slug}-fan{number}" for number in range(count)]
        with self.scope():
            tier = Tier.objects.get(slug="pro")
            for name in names:
                user = User.objects.create_user(name, f"{name}@example.com")
                Membership.objects.create(user=user, tier=tier, role=Role.FAN)
        return names

    def conversation(self, name: str) -> Conversation:
        """A new conversation of a member."""
        with self.scope():
            return services.conversation_create(principal=self.principal(name), language="pt-br")

    def post(self, name: str, text: str, conversation: Conversation | None = None) -> Run:
        """A message of a member, in a new conversation unless one is given; its run."""
        conversation = conversation or self.conversation(name)
        with self.scope():
            posted = services.message_post(
                principal=self.principal(name), conversation_id=conversation.pk, text=text
            )
        assert posted.run is not None
        return posted.run

    def post_as(self, principal: Principal, text: str) -> Run:
        """A message of any principal, in a new conversation; its run."""
        with self.scope():
            conversation = services.conversation_create(principal=principal, language="pt-br")
            posted = services.message_post(
                principal=principal, conversation_id=conversation.pk, text=text
            )
        assert posted.run is not None
        return posted.run

    def visitor(self) -> Principal:
        """Somebody who has not signed in."""
        return principal_for(tenant=self.tenant, user=AnonymousUser(), visitor="v" * 32)

    def run(self, run_id: UUID) -> Run:
        """A run as it is now."""
        with self.scope():
            return Run.objects.select_related("conversation").get(pk=run_id)

    def calls(self, run_id: UUID) -> list[ToolCall]:
        """The calls of a run, in order."""
        with self.scope():
            return list(
                ToolCall.objects.select_related("approval").filter(run_ref=run_id).order_by("id")
            )

    def answer(self, run_id: UUID) -> str:
        """What a run answered."""
        with self.scope():
            return Message.objects.get(run_id=run_id, speaker=Speaker.ASSISTANT).text

    def kinds(self, run_id: UUID) -> list[str]:
        """The kinds of a run's steps, in order."""
        with self.scope():
            steps = Run.objects.get(pk=run_id).steps.order_by("seq")
            return [step.kind for step in steps]

    def counts(self) -> dict[str, int]:
        """How much has happened in the box office."""
        with self.scope():
            return {
                "holds": Hold.objects.count(),
                "orders": Order.objects.filter(status__in=["paid", "refunded"]).count(),
                "refunds": Refund.objects.filter(status="refunded").count(),
                "live_claims": SeatClaim.objects.filter(released_at=None).count(),
            }


def make_cast(slug: str) -> Cast:
    """The tenant ``slug`` with 48 seats, an event, its tiers and its people."""
    seats = make_house(slug)
    tenant = seats.tenant
    with tenant_scope(tenant.pk):
        Tier.objects.filter(slug="anonymous").update(tools=READS)
        Tier.objects.filter(slug="pro").update(
            tools=PRO, can_approve_human=True, model_alias="claude-sonnet-4-7"
        )
        Tier.objects.create(
            slug="free", name="free", model_alias="claude-haiku-4-5", tools=FREE, **OFTEN
        )
        for name, (role, tier) in PEOPLE[slug].items():
            user = User.objects.create_user(name, f"{name}@{slug}.example.com")
            Membership.objects.create(user=user, tier=Tier.objects.get(slug=tier), role=role)
            for right in RIGHTS.get(Role(role), ()):
                assign_perm(f"tenancy.{right}", user, tenant)
    return Cast(tenant=tenant, seats=seats)


@pytest.fixture
def arena(transactional_db: None) -> Iterator[Cast]:
    """The tenant `arena`."""
    yield make_cast("arena")


@pytest.fixture
def teatro(arena: Cast) -> Cast:
    """The tenant `teatro`, beside `arena`."""
    return make_cast("teatro")

"""The cast: two tenants, the people in them, and requests that wait for them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import translation
from guardian.shortcuts import assign_perm

from approvals import ports, services, signals
from approvals.models import ApprovalRequest
from boxoffice.common.exceptions import InvalidInput
from boxoffice.common.types import uuid7
from boxoffice.tenancy.models import Membership, Tenant, Tier, User
from boxoffice.tenancy.principals import Principal, principal_for
from boxoffice.tenancy.scope import tenant_scope

PREVIEW = {
    "before": {"order": "paid", "refunded": 0.0},
    "after": {"order": "refunded", "refunded": 480.0},
    "undo": None,
    "summary": "Refund R$ 480.00",
}


@dataclass
class Cast:
    arena: Tenant
    teatro: Tenant
    ana: User  # fan of arena, for whom things are asked
    bia: User  # another fan of arena
    rita: User  # reviewer of arena
    raul: User  # another reviewer of arena
    anita: User  # reviewer of arena with ana's e-mail address
    ada: User  # tenant admin of arena
    rui: User  # reviewer of teatro

    def principal(self, name: str) -> Principal:
        tenant = self.teatro if name == "rui" else self.arena
        return principal_for(tenant=tenant, user=getattr(self, name))

    def client(self, name: str | None, **kwargs: Any) -> Client:
        client = Client(**kwargs)
        if name is not None:
            client.force_login(getattr(self, name))
        return client


def _member(tenant: Tenant, name: str, role: str, email: str = "") -> User:
    user = User.objects.create_user(name, email or f"{name}@example.com")
    with tenant_scope(tenant.pk):
        Membership.objects.create(user=user, tier=Tier.objects.get(slug="pro"), role=role)
    if role in {"reviewer", "admin"}:
        assign_perm("review_actions", user, tenant)
    return user


@pytest.fixture(autouse=True)
def _english() -> Iterator[None]:
    """The sentences that the tests look for are the sources' own."""
    with translation.override("en"):
        yield


@pytest.fixture
def cast(db: None) -> Cast:
    # Tests that need real commits say so: @pytest.mark.django_db(transaction=True).
    tenants = []
    for slug in ("arena", "teatro"):
        tenant = Tenant.objects.create(slug=slug, name=slug.title())
        tenants.append(tenant)
        with tenant_scope(tenant.pk):
            Tier.objects.create(slug="pro", name="Pro", model_alias="m")
            Tier.objects.create(slug="visitor", name="Visitor", model_alias="m", is_anonymous=True)
    arena, teatro = tenants
    return Cast(
        arena=arena,
        teatro=teatro,
        ana=_member(arena, "ana", "fan", "Ana@Example.com"),
        bia=_member(arena, "bia", "fan"),
        rita=_member(arena, "rita", "reviewer"),
        raul=_member(arena, "raul", "reviewer"),
        anita=_member(arena, "anita", "reviewer", "ana@example.com"),
        ada=_member(arena, "ada", "admin"),
        rui=_member(teatro, "rui", "reviewer"),
    )


@pytest.fixture
def ask(cast: Cast) -> Callable[..., ApprovalRequest]:
    """Make a request in arena for ana: a reviewer's by default, ``gate="fan"`` for her own."""

    def make(**changes: Any) -> ApprovalRequest:
        fields: dict[str, Any] = {
            "action": "refund_order",
            "arguments": {"order_id": "o-1", "reason": "doente"},
            "gate": "reviewer",
            "requested_for_id": cast.ana.pk,
            "reason": "Refunds are decided by a person.",
            "preview": PREVIEW,
            "binding_hash": "b" * 64,
            "reference": {
                "call": "call-1",
                "run": str(uuid7()),
                "conversation": str(uuid7()),
                "step": "3",
                "origin": "run:1",
            },
            "risk": "destructive",
            "rule": "destructive-needs-reviewer",
        }
        with tenant_scope(cast.arena.pk), transaction.atomic():
            return services.request_create(**(fields | changes))

    return make


@pytest.fixture
def in_arena(cast: Cast) -> Iterator[None]:
    with tenant_scope(cast.arena.pk):
        yield


class RefundPort:
    """An owner of actions that knows `refund_order` alone."""

    def check(self, action: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if set(arguments) != {"order_id", "reason"}:
            raise InvalidInput("arguments: order_id and reason, nothing else.")
        return {"order_id": str(arguments["order_id"]), "reason": str(arguments["reason"]).strip()}

    def preview(
        self, *, action: str, arguments: dict[str, Any], requested_for_id: int | None
    ) -> dict[str, Any] | None:
        return {"summary": f"Refund {arguments['order_id']}", "undo": None}


@pytest.fixture
def port() -> Iterator[RefundPort]:
    before = ports.port()
    mine = RefundPort()
    ports.register(mine)
    yield mine
    ports.register(before)


@pytest.fixture
def heard() -> Iterator[SimpleNamespace]:
    """What the signals of approvals said during the test."""
    said = SimpleNamespace(requested=[], decided=[], settled=[])

    def listener(name: str) -> Callable[..., None]:
        def listen(sender: object, **message: Any) -> None:
            message.pop("signal")
            getattr(said, name).append(message)

        return listen

    listeners = {name: listener(name) for name in vars(said)}
    for name, listen in listeners.items():
        getattr(signals, name).connect(listen, weak=False)
    yield said
    for name, listen in listeners.items():
        getattr(signals, name).disconnect(listen)

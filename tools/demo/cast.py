"""Who is who in the demo, and what each tier may use. Everything can be edited afterwards."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, Permission
from guardian.shortcuts import assign_perm

from boxoffice.tenancy.models import Membership, Role, Tenant, Tier, User
from boxoffice.tenancy.scope import tenant_scope

PASSWORD = "demo"  # noqa: S105 - printed at every start of the demo
ADMIN_GROUP = "tenant admins"
READS = ["search_events", "search_seats"]
FREE = [
    "search_web",
    *READS,
    "hold_seats",
    "release_hold",
    "place_order",
    "get_order_status",
    "refund_order",
    "create_ticket",
]
PRO = [*FREE, "rag_query", "code_exec", "send_email"]
ENTERPRISE = [*PRO, "db_write"]

TIERS: tuple[dict[str, Any], ...] = (
    {
        "slug": "anonymous",
        "name": "Visitante",
        "model_alias": "claude-haiku-4-5",
        "max_subagents": 0,
        "tools": READS,
        "rate_per_min": 10,
        "max_tokens_per_request": 4_000,
        "max_run_cost_micros": 100_000,
        "max_day_cost_micros": 300_000,
        "is_anonymous": True,
    },
    {
        "slug": "free",
        "name": "Free",
        "model_alias": "claude-haiku-4-5",
        "max_subagents": 2,
        "tools": FREE,
        "rate_per_min": 10,
        "max_tokens_per_request": 4_000,
    },
    {
        "slug": "pro",
        "name": "Pro",
        "model_alias": "claude-sonnet-4-7",
        "max_subagents": 5,
        "tools": PRO,
        "rate_per_min": 60,
        "max_tokens_per_request": 32_000,
        "max_steps": 20,
        "max_wall_seconds": 300,
        "max_run_cost_micros": 1_000_000,
        "max_day_cost_micros": 10_000_000,
        "can_approve_human": True,
    },
    {
        "slug": "enterprise",
        "name": "Enterprise",
        "model_alias": "claude-opus-4-7",
        "max_subagents": 12,
        "tools": ENTERPRISE,
        "rate_per_min": 600,
        "max_tokens_per_request": 200_000,
        "max_steps": 40,
        "max_wall_seconds": 900,
        "max_run_cost_micros": 10_000_000,
        "max_day_cost_micros": 100_000_000,
        "can_approve_human": True,
        "dedicated_circuit": True,
    },
)

REVIEWER_RIGHTS = ("review_actions", "answer_fans")
ADMIN_RIGHTS = ("configure", "view_costs", "replay_runs", "export_calls", *REVIEWER_RIGHTS)
_EDITABLE = {
    "tenancy": ("tier", "membership", "apitoken"),
    "ticketing": ("event", "price", "venue"),
}
_ROOMS = ("tenancy", "ticketing", "approvals", "tools", "agents", "audit", "billing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A member who signs in with the demo's password."""

    username: str
    first_name: str
    role: str
    tier: str


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """A tenant of the demo. ``crowd`` are the fans who bought seats before; they do not sign in."""

    slug: str
    name: str
    people: tuple[Person, ...]
    crowd: tuple[str, ...]


ARENA = House(
    slug="arena",
    name="Arena Guanabara",
    people=(
        Person(username="ana", first_name="Ana", role=Role.FAN, tier="pro"),
        Person(username="fabio", first_name="Fábio", role=Role.FAN, tier="free"),
        Person(username="rita", first_name="Rita", role=Role.REVIEWER, tier="enterprise"),
        Person(username="ada", first_name="Ada", role=Role.ADMIN, tier="enterprise"),
    ),
    crowd=("bia", "caio", "duda", "edu", "gabi"),
)
TEATRO = House(
    slug="teatro",
    name="Teatro Aurora",
    people=(
        Person(username="teo", first_name="Téo", role=Role.FAN, tier="pro"),
        Person(username="rui", first_name="Rui", role=Role.REVIEWER, tier="enterprise"),
        Person(username="tina", first_name="Tina", role=Role.ADMIN, tier="enterprise"),
    ),
    crowd=("hugo", "iris", "joana", "lia", "nina"),
)


def operator_seed() -> None:
    """The platform operator ``root``, who holds every tenant."""
    _user("root", first_name="Root", is_staff=True, is_superuser=True)


def tenant_seed(house: House, group: Group) -> Tenant:
    """The tenant with its tiers and people. What exists already is left as it is."""
    tenant, _ = Tenant.objects.get_or_create(slug=house.slug, defaults={"name": house.name})
    with tenant_scope(tenant.pk):
        for tier in TIERS:
            Tier.objects.get_or_create(slug=tier["slug"], defaults=tier)
        for person in house.people:
            _join(tenant, person, group)
        for name in house.crowd:
            user = _user(f"{name}.{house.slug}", first_name=name.title(), signs_in=False)
            _member(user, role=Role.FAN, tier="free")
    return tenant


def crowd_ids(house: House) -> list[int]:
    """The ids of the fans who bought seats before, in a stable order."""
    names = [f"{name}.{house.slug}" for name in house.crowd]
    return list(
        User.objects.filter(username__in=names).order_by("username").values_list("pk", flat=True)
    )


def admin_group_seed() -> Group:
    """What a tenant admin may look at and edit in the console, for the tenants they hold."""
    group, _ = Group.objects.get_or_create(name=ADMIN_GROUP)
    wanted = Permission.objects.filter(
        content_type__app_label__in=_ROOMS, codename__startswith="view_"
    )
    for room, models in _EDITABLE.items():
        codenames = [f"{verb}_{model}" for verb in ("add", "change") for model in models]
        wanted |= Permission.objects.filter(content_type__app_label=room, codename__in=codenames)
    group.permissions.add(
        *wanted.exclude(codename__in=["view_costs", "view_personal_data"]).order_by("pk")
    )
    return group


def _join(tenant: Tenant, person: Person, group: Group) -> None:
    is_admin = person.role == Role.ADMIN
    user = _user(person.username, first_name=person.first_name, is_staff=is_admin)
    _member(user, role=person.role, tier=person.tier)
    if is_admin:
        user.groups.add(group)
    rights = {Role.ADMIN: ADMIN_RIGHTS, Role.REVIEWER: REVIEWER_RIGHTS}.get(Role(person.role), ())
    for right in rights:
        assign_perm(right, user, tenant)


def _member(user: User, *, role: str, tier: str) -> None:
    Membership.objects.get_or_create(
        user=user, defaults={"role": role, "tier": Tier.objects.get(slug=tier)}
    )


@cache
def _password_hash() -> str:
    # One hash for all: they share the password anyway, and each hash takes half a second.
    return make_password(PASSWORD)


def _user(username: str, *, signs_in: bool = True, **fields: Any) -> User:
    known = User.objects.filter(username=username).first()
    if known is not None:
        return known
    password = _password_hash() if signs_in else make_password(None)
    return User.objects.create(
        username=username, email=f"{username}@example.com", password=password, **fields
    )

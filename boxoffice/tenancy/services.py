"""What a tenant's admin may do with people and tokens."""

from django.db import models, transaction
from guardian.shortcuts import assign_perm, get_objects_for_user, remove_perm

from boxoffice.common.clock import now
from boxoffice.tenancy.models import ApiToken, Membership, Role, Tenant, Tier, User

_REVIEWER = frozenset({"review_actions", "answer_fans"})
RIGHTS: dict[str, frozenset[str]] = {
    Role.FAN: frozenset(),
    Role.REVIEWER: _REVIEWER,
    Role.ADMIN: _REVIEWER | {"configure", "view_costs", "replay_runs", "export_calls"},
}
_ALL = RIGHTS[Role.ADMIN]
# What a visitor may use until the tenant's admin says otherwise: looking around.
VISITOR_TOOLS = ["search_events", "search_seats"]
VISITOR_MODEL = "claude-haiku-4-5"


def member_rights_sync(*, membership: Membership) -> None:
    """Give the member exactly the rights over this tenant that the role stands for.

    Rights over other tenants stay as they are. Who may configure a tenant may enter the console,
    and nobody else, operators excepted.
    """
    wanted = RIGHTS[membership.role] if membership.is_active else frozenset()
    user, tenant = membership.user, membership.tenant
    with transaction.atomic():
        for right in sorted(_ALL):
            change = assign_perm if right in wanted else remove_perm
            change(f"tenancy.{right}", user, tenant)
        _console_entry_sync(user)


def _console_entry_sync(user: User) -> None:
    if user.is_superuser:
        return
    held = get_objects_for_user(
        user, "tenancy.configure", klass=Tenant, accept_global_perms=False
    ).exists()
    User.objects.filter(pk=user.pk).exclude(is_staff=held).update(is_staff=held)


def tokens_revoke(*, tokens: models.QuerySet[ApiToken]) -> int:
    """Revoke the tokens that still work; returns how many did."""
    return tokens.filter(revoked_at=None, expires_at__gt=now()).update(revoked_at=now())


def tenant_open(*, tenant: Tenant) -> None:
    """Make the tier without which a new tenant cannot let visitors in. Call it in its scope."""
    Tier.objects.get_or_create(
        is_anonymous=True,
        defaults={
            "slug": "anonymous",
            "name": "Visitante",
            "model_alias": VISITOR_MODEL,
            "tools": VISITOR_TOOLS,
            "tenant": tenant,
        },
    )

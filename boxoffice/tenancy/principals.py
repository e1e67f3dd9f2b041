"""Who is asking: the one answer that views, sockets, tools and gates work with."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import AnonymousUser

from boxoffice.common.batch import Answer, Batch
from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.tenancy.models import ApiToken, Tenant, Tier, User
from boxoffice.tenancy.scope import operator_scope, tenant_scope

ANONYMOUS = "anonymous"
TOKEN_DAYS = 30


class InvalidToken(BoxOfficeError):
    """The bearer token is unknown, expired or revoked."""

    code = "invalid_token"
    status = 401
    hint = "Ask for a new token and send it as `Authorization: Bearer <token>`."


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Somebody acting in one tenant, from a session or a token, never from an argument.

    ``user_id`` is ``None`` for a visitor who did not sign in; ``visitor`` then names the browser
    session. ``role`` is a ``Role`` value or ``anonymous``; ``rate_per_min`` their tier's messages.
    """

    tenant_id: UUID
    user_id: int | None
    visitor: str | None
    username: str
    role: str
    tier_id: UUID
    permissions: frozenset[str]
    rate_per_min: int = 10

    @property
    def key(self) -> str:
        """A stable name for ledgers and logs: ``user:7`` or ``visitor:…``."""
        return f"user:{self.user_id}" if self.user_id is not None else f"visitor:{self.visitor}"

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody has signed in."""
        return self.user_id is None

    def may(self, permission: str) -> bool:
        """Whether this principal holds a right over the tenant (``review_actions``, …)."""
        return permission in self.permissions


def principal_for(
    *, tenant: Tenant, user: User | AnonymousUser, visitor: str | None = None
) -> Principal:
    """The principal of a signed-in user or an anonymous visitor in ``tenant``.

    Raises ``NotFound`` for a signed-in user who is no member: to them the tenant does not exist.
    """
    if not isinstance(user, User):
        with tenant_scope(tenant.pk):
            tier = Tier.objects.get(is_anonymous=True)
        return Principal(
            tenant_id=tenant.pk,
            user_id=None,
            visitor=visitor or secrets.token_hex(16),
            username="",
            role=ANONYMOUS,
            tier_id=tier.pk,
            permissions=frozenset(),
            rate_per_min=tier.rate_per_min,
        )
    found = _member(tenant_id=tenant.pk, user_id=user.pk)
    if found is None:
        raise NotFound("No such page.")
    return found


def principal_of_member(*, tenant_id: UUID, user_id: int) -> Principal | None:
    """The principal as it stands now for work done later in a user's name; ``None`` if revoked."""
    return _member(tenant_id=tenant_id, user_id=user_id)


# The rights are guardian's: the user's own and those of their groups, all for a superuser.
_MEMBER = """
SELECT u.username, coalesce(m.role, 'admin'), r.id, r.rate_per_min, ARRAY(
    SELECT p.codename FROM auth_permission p
    JOIN django_content_type c ON c.id = p.content_type_id
    WHERE c.app_label = 'tenancy' AND c.model = 'tenant' AND (
      u.is_superuser
      OR EXISTS (
        SELECT FROM tenancy_tenantuserpermission own
        WHERE own.permission_id = p.id AND own.user_id = u.id AND own.content_object_id = t.id
      )
      OR EXISTS (
        SELECT FROM tenancy_tenantgrouppermission theirs
        JOIN tenancy_user_groups g ON g.group_id = theirs.group_id
        WHERE theirs.permission_id = p.id AND g.user_id = u.id AND theirs.content_object_id = t.id
      )
    )
  )
FROM tenancy_user u
JOIN tenancy_tenant t ON t.id = %s
LEFT JOIN tenancy_membership m ON m.tenant_id = t.id AND m.user_id = u.id AND m.is_active
LEFT JOIN tenancy_tier r ON r.tenant_id = t.id
  AND (r.id = m.tier_id OR m.id IS NULL AND r.is_anonymous)
WHERE u.id = %s AND u.is_active AND t.is_active AND (m.id IS NOT NULL OR u.is_superuser)
"""


def principal_ask(batch: Batch, *, tenant_id: UUID, user_id: int) -> None:
    """Add the question of ``principal_of_member`` to a batch; ``principal_read`` reads it."""
    batch.add(_MEMBER, [tenant_id, user_id])


def principal_read(answer: Answer, *, tenant_id: UUID, user_id: int) -> Principal | None:
    """The member's principal, or ``None``."""
    for username, role, tier_id, rate_per_min, permissions in answer.rows:
        return Principal(
            tenant_id=tenant_id,
            user_id=user_id,
            visitor=None,
            username=username,
            role=role,
            tier_id=tier_id,
            permissions=frozenset(permissions),
            rate_per_min=rate_per_min or 0,
        )
    return None


def _member(*, tenant_id: UUID, user_id: int) -> Principal | None:
    batch = Batch()
    principal_ask(batch, tenant_id=tenant_id, user_id=user_id)
    with tenant_scope(tenant_id):
        (answer,) = batch.send()
    return principal_read(answer, tenant_id=tenant_id, user_id=user_id)


def token_create(*, tenant: Tenant, user: User, name: str = "", days: int = TOKEN_DAYS) -> str:
    """Make a bearer token for a member; the plain text is returned once and never stored."""
    plain = f"bo_{secrets.token_urlsafe(32)}"
    with tenant_scope(tenant.pk):
        ApiToken.objects.create(
            user=user, name=name, digest=_digest(plain), expires_at=now() + timedelta(days=days)
        )
    return plain


def token_user(*, tenant: Tenant, plain: str) -> User:
    """The user behind a bearer token.

    Raises ``InvalidToken`` for one that is unknown, expired or revoked, and ``NotFound`` for one
    of another tenant: its holder is known, and has no business here.
    """
    with operator_scope("a token says its tenant itself"):
        token = ApiToken.objects.select_related("user").filter(digest=_digest(plain)).first()
    if token is None or token.revoked_at is not None or not token.user.is_active:
        raise InvalidToken("This token is not known.")
    if token.expires_at <= now():
        raise InvalidToken("This token has expired.")
    if token.tenant_id != tenant.pk:
        raise NotFound("No such page.")
    return token.user


def _digest(plain: str) -> str:
    return hashlib.sha256(plain.encode()).hexdigest()

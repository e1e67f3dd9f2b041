"""Who is asking: the one answer that views, sockets, tools and gates work with."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from guardian.shortcuts import get_perms

from boxoffice.common.clock import now
from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.tenancy.models import ApiToken, Membership, Tenant, Tier, User
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
    session. ``role`` is a ``Role`` value or ``anonymous``.
    """

    tenant_id: UUID
    user_id: int | None
    visitor: str | None
    username: str
    role: str
    tier_id: UUID
    permissions: frozenset[str]

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
    with tenant_scope(tenant.pk):
        if not isinstance(user, User):
            tier = Tier.objects.get(is_anonymous=True)
            return Principal(
                tenant_id=tenant.pk,
                user_id=None,
                visitor=visitor or secrets.token_hex(16),
                username="",
                role=ANONYMOUS,
                tier_id=tier.pk,
                permissions=frozenset(),
            )
        membership = Membership.objects.filter(user=user, is_active=True).first()
        if membership is None and not user.is_superuser:
            raise NotFound("No such page.")
        return Principal(
            tenant_id=tenant.pk,
            user_id=user.pk,
            visitor=None,
            username=user.get_username(),
            role=membership.role if membership else "admin",
            tier_id=membership.tier_id if membership else Tier.objects.get(is_anonymous=True).pk,
            permissions=frozenset(get_perms(user, tenant)),
        )


def principal_of_member(*, tenant_id: UUID, user_id: int) -> Principal | None:
    """The principal as it stands now for work done later in a user's name; ``None`` if revoked."""
    user = User.objects.filter(pk=user_id, is_active=True).first()
    tenant = Tenant.objects.filter(pk=tenant_id, is_active=True).first()
    if user is None or tenant is None:
        return None
    try:
        return principal_for(tenant=tenant, user=user)
    except NotFound:
        return None


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

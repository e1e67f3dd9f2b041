"""Tenants, what their members may use, and the base of every tenant-owned model."""

from typing import Any, ClassVar, Self
from uuid import UUID

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from guardian.mixins import GuardianUserMixin
from guardian.models import GroupObjectPermissionBase, UserObjectPermissionBase

from boxoffice.common.types import uuid7
from boxoffice.tenancy.scope import ScopeMissing, current_scope, current_tenant_id


class User(GuardianUserMixin, AbstractUser):
    """A person who signs in; what they may do is said per tenant, by ``Membership``."""

    language = models.CharField(_("language"), max_length=10, blank=True, default="")


class Tenant(models.Model):
    """A venue, festival or promoter that runs its box office here."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(_("slug"), unique=True, max_length=50)
    name = models.CharField(_("name"), max_length=200)
    host = models.CharField(
        _("host name"),
        max_length=253,
        unique=True,
        null=True,
        blank=True,
        help_text=_("Served at the root of this host, besides /t/<slug>/."),
    )
    time_zone = models.CharField(_("time zone"), max_length=64, default="America/Sao_Paulo")
    language = models.CharField(_("language"), max_length=10, default="pt-br")
    currency = models.CharField(_("currency"), max_length=3, default="BRL")
    is_active = models.BooleanField(_("active"), default=True)
    share = models.PositiveSmallIntegerField(
        _("share"),
        default=10,
        db_default=10,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("When answers have to wait: twice the share gets twice as many at once."),
    )
    max_concurrent_runs = models.PositiveSmallIntegerField(
        _("answers at once at most"),
        default=100,
        db_default=100,
        validators=[MinValueValidator(1), MaxValueValidator(10_000)],
        help_text=_("Further ones wait in line; visitors get at most half of them."),
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(share__gte=1), name="tenant_has_a_share"),
            models.CheckConstraint(condition=Q(max_concurrent_runs__gte=1), name="tenant_may_work"),
        ]
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        permissions = [
            ("review_actions", _("Can decide on the agent's requests")),
            ("configure", _("Can configure the agent")),
            ("view_costs", _("Can see what the agent costs")),
            ("answer_fans", _("Can answer fans in the chat")),
            ("replay_runs", _("Can replay and fork runs of the agent")),
            ("export_calls", _("Can export the log of tool calls")),
            ("view_personal_data", _("Can see personal data in the log of tool calls")),
        ]

    def __str__(self) -> str:
        return self.name


class TenantUserPermission(UserObjectPermissionBase):
    """Guardian's direct-key table: a user's right over one tenant."""

    content_object = models.ForeignKey(Tenant, on_delete=models.CASCADE)


class TenantGroupPermission(GroupObjectPermissionBase):
    """Guardian's direct-key table: a group's right over one tenant."""

    content_object = models.ForeignKey(Tenant, on_delete=models.CASCADE)


class TenantManager[M: models.Model](models.Manager[M]):
    """Filters by the open scope, and raises ``ScopeMissing`` when there is none."""

    def get_queryset(self) -> models.QuerySet[M]:
        """The rows of the open scope."""
        scope = current_scope()
        if scope is None:
            raise ScopeMissing(f"{self.model.__name__} was asked for outside any tenant scope.")
        rows = super().get_queryset()
        if scope.tenant_ids is None:
            return rows
        if len(scope.tenant_ids) == 1:
            return rows.filter(tenant_id=next(iter(scope.tenant_ids)))
        return rows.filter(tenant_id__in=scope.tenant_ids)


class TenantModel(models.Model):
    """Base of every tenant-owned model: a time-ordered id, the tenant, the scoped manager."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="+")

    objects: ClassVar[TenantManager[Self]] = TenantManager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the row in the open scope; a row of another tenant is refused."""
        self.claim_tenant()
        super().save(*args, **kwargs)

    def claim_tenant(self) -> None:
        """Set the scope's tenant on a new row, and refuse a row that the scope does not see."""
        tenant_id: UUID | None = getattr(self, "tenant_id", None)
        if tenant_id is None:
            self.tenant_id = current_tenant_id()
            return
        scope = current_scope()
        if scope is None or (scope.tenant_ids is not None and tenant_id not in scope.tenant_ids):
            raise ScopeMissing(f"{type(self).__name__} of a tenant that the scope does not see.")


def _string_list() -> list[str]:
    return []


class Tier(TenantModel):
    """What a member may use: the tier decides model, tools and limits; a prompt never does."""

    slug = models.SlugField(_("slug"), max_length=50)
    name = models.CharField(_("name"), max_length=100)
    model_alias = models.CharField(_("model"), max_length=100)
    max_subagents = models.PositiveSmallIntegerField(_("subagents at most"), default=0)
    tools = ArrayField(
        models.CharField(max_length=64), verbose_name=_("granted tools"), default=_string_list
    )
    rate_per_min = models.PositiveIntegerField(_("messages per minute"), default=10)
    max_tokens_per_request = models.PositiveIntegerField(_("answer tokens per run"), default=4000)
    max_steps = models.PositiveSmallIntegerField(_("model calls per run"), default=12)
    max_wall_seconds = models.PositiveIntegerField(_("working seconds per run"), default=120)
    max_run_cost_micros = models.PositiveBigIntegerField(
        _("cost per run (millionths of a US dollar)"), default=200_000
    )
    max_day_cost_micros = models.PositiveBigIntegerField(
        _("cost per fan and day (millionths of a US dollar)"), default=1_000_000
    )
    can_approve_human = models.BooleanField(_("may ask a reviewer"), default=False)
    dedicated_circuit = models.BooleanField(_("circuit of its own"), default=False)
    is_anonymous = models.BooleanField(_("for visitors who did not sign in"), default=False)

    class Meta:
        verbose_name = _("tier")
        verbose_name_plural = _("tiers")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="tier_slug_once"),
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(is_anonymous=True), name="tier_one_anonymous"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """What a member is to the tenant."""

    FAN = "fan", _("fan")
    REVIEWER = "reviewer", _("reviewer")
    ADMIN = "admin", _("tenant admin")


class Membership(TenantModel):
    """A user's place in a tenant."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    tier = models.ForeignKey(Tier, on_delete=models.PROTECT, related_name="memberships")
    role = models.CharField(_("role"), max_length=16, choices=Role, default=Role.FAN)
    is_active = models.BooleanField(_("active"), default=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("membership")
        verbose_name_plural = _("memberships")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_once"),
            models.CheckConstraint(
                condition=Q(role__in=["fan", "reviewer", "admin"]), name="membership_role_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} @ {self.tenant}"


class ApiToken(TenantModel):
    """A bearer token of one member for one tenant; only its digest is stored."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(_("name"), max_length=100, blank=True, default="")
    digest = models.CharField(max_length=64, unique=True, editable=False)
    expires_at = models.DateTimeField(_("expires at"))
    revoked_at = models.DateTimeField(_("revoked at"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        indexes = [models.Index(fields=["tenant", "user"], name="apitoken_tenant_user")]

    def __str__(self) -> str:
        return self.name or str(self.pk)


class IdempotencyRecord(TenantModel):
    """The stored answer to a POST that carried an ``Idempotency-Key``."""

    principal = models.CharField(max_length=64)
    key = models.CharField(max_length=255)
    fingerprint = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("idempotency record")
        verbose_name_plural = _("idempotency records")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "principal", "key"], name="idempotency_key_once"
            )
        ]

    def __str__(self) -> str:
        return self.key

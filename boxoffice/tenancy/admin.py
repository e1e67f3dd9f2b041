"""Tenants, tiers, members and tokens in the console."""

from functools import cache
from typing import Any
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import GroupAdmin as BaseGroupAdmin
from django.contrib.auth.admin import UserAdmin as BaseUserAdmin
from django.contrib.auth.models import Group
from django.contrib.postgres.fields import ArrayField
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _
from guardian.admin import GuardedModelAdmin
from unfold.contrib.forms.widgets import ArrayWidget
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from boxoffice.tenancy import services
from boxoffice.tenancy.console import (
    ADD,
    CHANGE,
    VIEW,
    ConsoleAdmin,
    MachineWritten,
    OperatorOnly,
    SameTenantForm,
    is_operator,
    tenants_in_scope,
)
from boxoffice.tenancy.models import (
    ApiToken,
    IdempotencyRecord,
    Membership,
    Tenant,
    TenantGroupPermission,
    TenantUserPermission,
    Tier,
    User,
)
from boxoffice.tenancy.scope import tenant_scope

admin.site.unregister(Group)


@admin.register(Group)
class GroupAdmin(OperatorOnly, BaseGroupAdmin):  # type: ignore[misc]
    """Groups of the platform's operators."""

    form = forms.ModelForm  # type: ignore[assignment]


@admin.register(User)
class UserAdmin(OperatorOnly, BaseUserAdmin):  # type: ignore[misc,type-arg]
    """Everybody who signs in, of all tenants: the operator's."""

    form = UserChangeForm
    add_form = UserCreationForm
    change_password_form = AdminPasswordChangeForm
    list_display = ["username", "email", "first_name", "last_name", "is_staff", "is_active"]


@cache
def _time_zones() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(available_timezones())]


@admin.register(Tenant)
class TenantAdmin(ConsoleAdmin, GuardedModelAdmin):  # type: ignore[misc]
    """The tenants that one holds. A tenant admin changes how it looks, not where it is."""

    tenant_admin_may = frozenset({VIEW, CHANGE})
    list_display = [
        "name",
        "slug",
        "host",
        "language",
        "share",
        "max_concurrent_runs",
        "is_active",
        "created_at",
    ]
    list_filter = ["is_active", "language"]
    search_fields = ["name", "slug", "host"]
    readonly_fields = ["created_at"]
    form = forms.ModelForm

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Tenant]:
        """The tenants in scope; the model has no scope of its own."""
        return super().get_queryset(request).filter(pk__in=tenants_in_scope())

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Address, currency, whether it is open, and its part of the workers are the operator's."""
        fields = super().get_readonly_fields(request, obj)
        if is_operator(request):
            return fields
        return ["slug", "host", "currency", "is_active", "share", "max_concurrent_runs", *fields]

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Languages and time zones that exist."""
        choices: dict[str, list[Any]] = {
            "language": settings.LANGUAGES,
            "time_zone": _time_zones(),
        }
        known = choices.get(db_field.name)
        if known is None:
            return super().formfield_for_dbfield(db_field, request, **kwargs)
        return forms.ChoiceField(
            choices=known,
            label=db_field.verbose_name,
            initial=db_field.default,
            widget=UnfoldAdminSelectWidget(choices=known),
        )

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:
        """A new tenant can let visitors in at once."""
        super().save_model(request, obj, form, change)
        if not change:
            with tenant_scope(obj.pk):
                services.tenant_open(tenant=obj)

    def obj_perms_manage_view(self, request: HttpRequest, object_pk: str) -> HttpResponse:
        """Rights over the tenant, one by one: the operator's; a tenant admin sets roles."""
        self._operator(request)
        page: HttpResponse = super().obj_perms_manage_view(  # type: ignore[no-untyped-call]
            request, object_pk
        )
        return page

    def obj_perms_manage_user_view(
        self, request: HttpRequest, object_pk: str, user_id: Any
    ) -> HttpResponse:
        """The same, of one user."""
        self._operator(request)
        page: HttpResponse = super().obj_perms_manage_user_view(  # type: ignore[no-untyped-call]
            request, object_pk, user_id
        )
        return page

    def obj_perms_manage_group_view(
        self, request: HttpRequest, object_pk: str, group_id: Any
    ) -> HttpResponse:
        """The same, of one group."""
        self._operator(request)
        page: HttpResponse = super().obj_perms_manage_group_view(  # type: ignore[no-untyped-call]
            request, object_pk, group_id
        )
        return page

    def _operator(self, request: HttpRequest) -> None:
        if not is_operator(request):
            raise PermissionDenied


@admin.register(Tier)
class TierAdmin(ConsoleAdmin):
    """Model, tools and limits of each tier."""

    tenant_admin_may = frozenset({VIEW, ADD, CHANGE})
    list_display = [
        "name",
        "tenant",
        "model_alias",
        "rate_per_min",
        "max_tokens_per_request",
        "can_approve_human",
        "is_anonymous",
    ]
    list_filter = ["tenant", "model_alias", "can_approve_human"]
    list_select_related = ["tenant"]
    search_fields = ["name", "slug", "model_alias"]
    ordering = ["tenant", "id"]
    formfield_overrides = {ArrayField: {"widget": ArrayWidget}}


class MembershipForm(SameTenantForm):
    """A member is named in full: the list of everybody is not a tenant's to see."""

    username = forms.CharField(label=_("user name"), widget=UnfoldAdminTextInputWidget)

    def clean_username(self) -> str:
        """The user must exist already."""
        name: str = self.cleaned_data["username"]
        user = User.objects.filter(username=name, is_active=True).first()
        if user is None:
            raise forms.ValidationError(_("There is no such user."))
        self.instance.user = user
        return name

    def clean(self) -> dict[str, Any]:
        """Nobody is a member twice."""
        cleaned = super().clean()
        tenant, user_id = cleaned.get("tenant"), self.instance.user_id
        if tenant and Membership.objects.filter(tenant=tenant, user_id=user_id).exists():
            self.add_error("username", _("This user is a member already."))
        return cleaned


@admin.register(Membership)
class MembershipAdmin(ConsoleAdmin):
    """Who belongs to a tenant, as what. The rights follow the role."""

    tenant_admin_may = frozenset({VIEW, ADD, CHANGE})
    list_display = ["user", "tenant", "role", "tier", "is_active", "created_at"]
    list_filter = ["role", "is_active", "tenant", "tier"]
    list_select_related = ["user", "tenant", "tier"]
    search_fields = ["user__username", "user__email"]

    def get_form(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        """A new member is named; a known one stays who it is."""
        if obj is None:
            kwargs["form"] = MembershipForm
        return super().get_form(request, obj, **kwargs)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """The user first."""
        rest = ["tier", "role", "is_active"]
        return ["tenant", "username", *rest] if obj is None else ["tenant", "user", *rest]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """The user of a membership never changes."""
        fields = super().get_readonly_fields(request, obj)
        return fields if obj is None else ["user", *fields]

    def save_model(self, request: HttpRequest, obj: Membership, form: Any, change: bool) -> None:
        """Store, and let the rights follow."""
        super().save_model(request, obj, form, change)
        services.member_rights_sync(membership=obj)

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        """Take the rights too."""
        obj.is_active = False
        services.member_rights_sync(membership=obj)
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: models.QuerySet[Membership]) -> None:
        """Take the rights of each too."""
        for membership in queryset.select_related("user", "tenant"):
            self.delete_model(request, membership)


@admin.register(ApiToken)
class ApiTokenAdmin(MachineWritten):
    """Tokens that were given out; they can be revoked, and never be read again."""

    list_display = ["name", "user", "tenant", "created_at", "expires_at", "revoked_at"]
    list_filter = ["tenant", "expires_at", "revoked_at"]
    list_select_related = ["user", "tenant"]
    search_fields = ["name", "user__username"]
    exclude = ["digest"]
    actions = ["revoke"]

    @admin.action(description=_("Revoke the selected tokens"))
    def revoke(self, request: HttpRequest, queryset: models.QuerySet[ApiToken]) -> None:
        """They stop working at once."""
        count = services.tokens_revoke(tokens=queryset)
        messages.success(request, _("%(count)d tokens revoked.") % {"count": count})


@admin.register(IdempotencyRecord)
class IdempotencyRecordAdmin(MachineWritten):
    """Answers that were given to POSTs with a key."""

    deferred = ("body",)
    list_display = ["created_at", "tenant", "principal", "key", "status"]
    list_filter = ["tenant", "status"]
    list_select_related = ["tenant"]
    search_fields = ["=key", "=principal"]


@admin.register(TenantUserPermission)
class TenantUserPermissionAdmin(OperatorOnly):
    """Rights of users over tenants."""

    list_display = ["content_object", "user", "permission"]
    list_filter = ["content_object", "permission"]
    list_select_related = ["content_object", "user", "permission__content_type"]
    search_fields = ["user__username"]
    autocomplete_fields = ["user"]


@admin.register(TenantGroupPermission)
class TenantGroupPermissionAdmin(OperatorOnly):
    """Rights of groups over tenants."""

    list_display = ["content_object", "group", "permission"]
    list_select_related = ["content_object", "group", "permission__content_type"]
    search_fields = ["group__name"]


@admin.register(LogEntry)
class LogEntryAdmin(OperatorOnly):
    """What was done in the console."""

    operator_may = frozenset({VIEW})
    list_display = ["action_time", "user", "content_type", "object_repr", "action_flag"]
    list_filter = ["action_flag", "content_type"]
    list_select_related = ["user", "content_type"]
    search_fields = ["object_repr", "user__username"]
    date_hierarchy = "action_time"

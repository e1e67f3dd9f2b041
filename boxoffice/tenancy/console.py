"""What the console's pages have in common: tenant admins see their tenants, nobody edits history.

The rights of a tenant admin are the tenants on which they hold ``configure``; the middleware has
opened a scope of exactly these around the request. The operator (a superuser) sees everything.
"""

from typing import Any

from django import forms
from django.contrib.admin import ActionLocation, FieldListFilter, RelatedFieldListFilter
from django.db import models
from django.http import Http404, HttpRequest, HttpResponseBase
from django.utils.translation import gettext_lazy as _
from unfold.admin import ModelAdmin, TabularInline

from boxoffice.tenancy.models import Tenant, TenantModel
from boxoffice.tenancy.scope import current_scope

VIEW, ADD, CHANGE, DELETE = "view", "add", "change", "delete"


def tenants_in_scope() -> models.QuerySet[Tenant]:
    """The tenants that the open scope sees; none without a scope."""
    scope = current_scope()
    if scope is None:
        return Tenant.objects.none()
    if scope.tenant_ids is None:
        return Tenant.objects.all()
    return Tenant.objects.filter(pk__in=scope.tenant_ids)


def is_operator(request: HttpRequest) -> bool:
    """Whether the platform's operator is asking."""
    return bool(request.user.is_active and request.user.is_superuser)


def is_tenant_admin(request: HttpRequest) -> bool:
    """Whether somebody is asking who holds a tenant."""
    if not (request.user.is_active and request.user.is_staff):
        return False
    scope = current_scope()
    return scope is not None and scope.tenant_ids is not None and bool(scope.tenant_ids)


class TenantFilter(RelatedFieldListFilter):
    """Filters by tenant, and names only those in scope."""

    def field_choices(
        self, field: Any, request: HttpRequest, model_admin: Any
    ) -> list[tuple[str, Any]]:
        """The tenants in scope."""
        return [(str(tenant.pk), tenant.name) for tenant in tenants_in_scope().order_by("name")]


FieldListFilter.register(
    lambda field: getattr(field.remote_field, "model", None) is Tenant,
    TenantFilter,
    take_priority=True,
)


class SameTenantForm(forms.ModelForm):  # type: ignore[type-arg]
    """Refuses a row that would point to a row of another tenant."""

    def clean(self) -> dict[str, Any]:
        """Compare the tenants of everything that was chosen."""
        cleaned: dict[str, Any] = super().clean() or self.cleaned_data
        tenant_id = _tenant_of(cleaned, self.instance)
        for name, value in list(cleaned.items()):
            if isinstance(value, TenantModel) and tenant_id not in (None, value.tenant_id):
                self.add_error(name, _("This belongs to another tenant."))
        return cleaned


def _tenant_of(cleaned: dict[str, Any], instance: models.Model) -> Any:
    tenant = cleaned.get("tenant")
    return tenant.pk if isinstance(tenant, Tenant) else getattr(instance, "tenant_id", None)


class _Rights:
    """Who may do what, by ``tenant_admin_may`` instead of by permissions over whole tables."""

    tenant_admin_may: frozenset[str] = frozenset({VIEW})
    operator_may: frozenset[str] = frozenset({VIEW, ADD, CHANGE, DELETE})

    def _may(self, request: HttpRequest, verb: str) -> bool:
        if is_operator(request):
            return verb in self.operator_may
        return verb in self.tenant_admin_may and is_tenant_admin(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who sees it."""
        return self._may(request, VIEW)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who adds."""
        return self._may(request, ADD)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who changes."""
        return self._may(request, CHANGE)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Who removes."""
        return self._may(request, DELETE)

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Whether the room is shown at all."""
        return self._may(request, VIEW)


class ConsoleAdmin(_Rights, ModelAdmin):  # type: ignore[misc]
    """Base of the console's pages.

    ``deferred`` names heavy columns that a list does not read. Foreign keys offer only what is in
    scope; a row that is not is 404, as if it did not exist.
    """

    deferred: tuple[str, ...] = ()
    show_full_result_count = False
    list_per_page = 50
    form: type[forms.ModelForm] = SameTenantForm  # type: ignore[type-arg]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """The rows in scope; in a list, without the heavy columns."""
        rows: models.QuerySet[Any] = super().get_queryset(request)
        match = request.resolver_match
        is_list = match is not None and (match.url_name or "").endswith("_changelist")
        return rows.defer(*self.deferred) if is_list and self.deferred else rows

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """A row never moves to another tenant."""
        fields = list(super().get_readonly_fields(request, obj))
        is_owned = issubclass(self.model, TenantModel)
        return ["tenant", *fields] if is_owned and obj is not None else fields

    def get_action_choices(
        self,
        request: HttpRequest,
        default_choices: Any = None,
        action_location: Any = ActionLocation.CHANGE_LIST,
    ) -> list[tuple[str, str]]:
        """Django's own: Unfold's has the signature from before Django 6.1."""
        choices: list[tuple[str, str]] = super(ModelAdmin, self).get_action_choices(
            request, default_choices or [("", _("Select action"))], action_location
        )
        return choices

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Offer the tenants in scope; rows of tenants are filtered by their manager."""
        if db_field.remote_field.model is Tenant:
            kwargs["queryset"] = tenants_in_scope().order_by("name")
            held = list(kwargs["queryset"][:2])
            if len(held) == 1:
                kwargs["initial"] = held[0].pk
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_formset(self, request: HttpRequest, form: Any, formset: Any, change: bool) -> None:
        """Rows that are added inside a row have its tenant."""
        if isinstance(form.instance, TenantModel):
            for row in formset.forms:
                if isinstance(row.instance, TenantModel):
                    row.instance.tenant_id = form.instance.tenant_id
        super().save_formset(request, form, formset, change)

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: Any = None
    ) -> HttpResponseBase:
        """The history of a row in scope."""
        if self.get_object(request, object_id) is None:
            raise Http404
        return super().history_view(request, object_id, extra_context)  # type: ignore[no-any-return]

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Any, object_id: str
    ) -> HttpResponseBase:
        raise Http404


class MachineWritten(ConsoleAdmin):
    """Rows that the system writes: to be read, filtered and searched."""

    operator_may = frozenset({VIEW})


class OperatorOnly(ConsoleAdmin):
    """Of the platform; tenant admins do not see it."""

    tenant_admin_may = frozenset()


class EditableRows(_Rights, TabularInline):  # type: ignore[misc]
    """Rows edited on the page of the row that they belong to."""

    tenant_admin_may = frozenset({VIEW, ADD, CHANGE})
    exclude = ["tenant"]  # it is the outer row's
    extra = 0


class MachineRows(_Rights, TabularInline):  # type: ignore[misc]
    """Machine-written rows shown on the page of the row that they belong to."""

    operator_may = frozenset({VIEW})
    can_delete = False
    extra = 0

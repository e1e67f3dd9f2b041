"""Prices and spending in the console."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from guardian.shortcuts import get_objects_for_user

from boxoffice.billing.models import ModelPrice, UsageEntry
from boxoffice.billing.selectors import prices_forget
from boxoffice.tenancy.console import MachineWritten, OperatorOnly, is_operator
from boxoffice.tenancy.models import Tenant


def dollars(micros: int) -> str:
    """Millionths of a US dollar as people read them."""
    return f"US$ {micros / 1_000_000:,.6f}"


@admin.register(ModelPrice)
class ModelPriceAdmin(OperatorOnly):
    """What models cost. Other processes read a change within a minute.

    A new price is a new row: what was charged before keeps its own.
    """

    list_display = [
        "alias_prefix",
        "valid_from",
        "input_micros",
        "output_micros",
        "cache_read_micros",
        "cache_write_micros",
    ]
    search_fields = ["alias_prefix"]

    def save_model(self, request: HttpRequest, obj: ModelPrice, form: Any, change: bool) -> None:
        """Store, and charge by it at once."""
        super().save_model(request, obj, form, change)
        prices_forget()


@admin.register(UsageEntry)
class UsageEntryAdmin(MachineWritten):
    """Every model call and its cost, for those who may see costs."""

    deferred = ("prices",)
    list_display = [
        "created_at",
        "tenant",
        "user",
        "model",
        "input_tokens",
        "output_tokens",
        "cache_read_tokens",
        "cost",
    ]
    list_filter = ["tenant", "model", "created_at"]
    list_select_related = ["tenant", "user"]
    search_fields = ["=run_ref", "user__username"]
    date_hierarchy = "created_at"
    ordering = ["-id"]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[UsageEntry]:
        """Of the tenants whose costs one may see."""
        rows = super().get_queryset(request)
        if is_operator(request):
            return rows
        seen = get_objects_for_user(
            request.user, "tenancy.view_costs", klass=Tenant, accept_global_perms=False
        )
        return rows.filter(tenant__in=list(seen))

    @admin.display(description=_("cost"), ordering="cost_micros")
    def cost(self, entry: UsageEntry) -> str:
        """In US dollars."""
        return dollars(entry.cost_micros)

"""The ledger of tool calls in the console."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.console import MachineWritten
from tools import registry
from tools.models import ToolCall


class ToolFilter(admin.SimpleListFilter):
    """By tool: from the registry, because reading the names from the ledger reads all of it."""

    title = _("tool")
    parameter_name = "tool"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """The tools that exist."""
        return [(spec.name, spec.name) for spec in registry.all_tools()]

    def queryset(
        self, request: HttpRequest, queryset: models.QuerySet[ToolCall]
    ) -> models.QuerySet[ToolCall]:
        """The calls of the chosen tool."""
        return queryset.filter(tool=self.value()) if self.value() else queryset


@admin.register(ToolCall)
class ToolCallAdmin(MachineWritten):
    """Every call that a model proposed, allowed or not."""

    deferred = ("arguments", "result", "error")
    list_display = [
        "created_at",
        "tenant",
        "tool",
        "user",
        "verdict",
        "reason_code",
        "state",
        "attempts",
        "latency_ms",
    ]
    list_filter = ["state", "verdict", ToolFilter, "tenant", "created_at"]
    list_select_related = ["tenant", "user"]
    search_fields = ["=id", "=run_ref", "=conversation_ref", "user__username"]
    ordering = ["-id"]

"""Approvals in the console. Deciding happens in the inbox: there the reviewer's rights are held."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from unfold.admin import TabularInline

from approvals.models import ApprovalRequest, Decision
from approvals.policies.console import PolicyVersionAdmin
from boxoffice.audit.admin import MachineWrittenAdmin

__all__ = ["ApprovalRequestAdmin", "DecisionAdmin", "PolicyVersionAdmin"]


class DecisionInline(TabularInline):  # type: ignore[misc]
    """What was said on a request."""

    model = Decision
    fields = ["created_at", "verb", "user", "note", "arguments"]
    readonly_fields = fields
    extra = 0
    can_delete = False

    def has_add_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody adds here."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody changes."""
        return False


@admin.register(ApprovalRequest)
class ApprovalRequestAdmin(MachineWrittenAdmin):
    """Every request, of both gates."""

    list_display = [
        "created_at",
        "tenant",
        "action",
        "gate",
        "state",
        "risk",
        "requested_by_label",
        "decided_at",
    ]
    list_filter = ["state", "gate", "action", "tenant"]
    search_fields = ["=id", "=run_ref", "=conversation_ref", "requested_by_label"]
    list_select_related = ["tenant"]
    inlines = [DecisionInline]
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Newest first."""
        return super().get_queryset(request).order_by("-id")


@admin.register(Decision)
class DecisionAdmin(MachineWrittenAdmin):
    """Every word on a request."""

    list_display = ["created_at", "tenant", "request", "verb", "user", "note"]
    list_filter = ["verb", "tenant"]
    list_select_related = ["tenant", "request", "user"]
    search_fields = ["=request__id", "user__username"]

"""The audit log in the console: to be read, filtered and searched, never written."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from unfold.admin import ModelAdmin

from boxoffice.audit.models import AuditRecord, AuditSeal


class MachineWrittenAdmin(ModelAdmin):  # type: ignore[misc]
    """Rows that the system writes: nobody adds, changes or removes them by hand."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Nobody adds."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody changes."""
        return False

    def has_delete_permission(self, request: HttpRequest, obj: models.Model | None = None) -> bool:
        """Nobody removes."""
        return False


@admin.register(AuditRecord)
class AuditRecordAdmin(MachineWrittenAdmin):
    """What happened."""

    list_display = ["created_at", "tenant", "action", "actor", "target"]
    list_filter = ["action", "tenant", "created_at"]
    search_fields = ["=target", "=actor", "action"]
    list_select_related = ["tenant"]
    date_hierarchy = "created_at"
    ordering = ["-sequence"]
    show_full_result_count = False

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        """Without the details, which only one record's own page shows."""
        rows = super().get_queryset(request)
        is_list = request.resolver_match is not None and request.resolver_match.url_name == (
            "audit_auditrecord_changelist"
        )
        return rows.defer("details") if is_list else rows  # type: ignore[no-any-return]


@admin.register(AuditSeal)
class AuditSealAdmin(MachineWrittenAdmin):
    """The links of the chain."""

    list_display = ["created_at", "tenant", "number", "records", "digest"]
    list_filter = ["tenant"]
    search_fields = ["=digest"]
    list_select_related = ["tenant"]

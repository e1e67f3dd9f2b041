"""The audit log in the console: to be read, filtered and searched, never written."""

from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest

from boxoffice.audit.models import AuditRecord, AuditSeal
from boxoffice.tenancy.console import MachineWritten


class MachineWrittenAdmin(MachineWritten):
    """Rows that the system writes: nobody adds, changes or removes them by hand."""


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
        return rows.defer("details") if is_list else rows


@admin.register(AuditSeal)
class AuditSealAdmin(MachineWrittenAdmin):
    """The links of the chain."""

    list_display = ["created_at", "tenant", "number", "records", "digest"]
    list_filter = ["tenant"]
    search_fields = ["=digest"]
    list_select_related = ["tenant"]

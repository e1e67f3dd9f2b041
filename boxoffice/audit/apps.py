"""The audit room."""

from django.apps import AppConfig


class AuditConfig(AppConfig):
    """App of the audit room."""

    name = "boxoffice.audit"
    label = "audit"
    default_auto_field = "django.db.models.BigAutoField"

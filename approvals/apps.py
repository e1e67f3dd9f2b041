"""The approvals room."""

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """App of the approvals room."""

    name = "approvals"
    label = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

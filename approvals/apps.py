"""The approvals room."""

from importlib import import_module

from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    """App of the approvals room."""

    name = "approvals"
    label = "approvals"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the receivers."""
        import_module("approvals.receivers")

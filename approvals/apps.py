"""The approvals room."""

from importlib import import_module

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class ApprovalsConfig(AppConfig):
    """App of the approvals room."""

    name = "approvals"
    label = "approvals"
    verbose_name = _("approvals")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect the receivers."""
        import_module("approvals.receivers")

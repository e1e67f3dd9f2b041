"""The audit room."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AuditConfig(AppConfig):
    """App of the audit room."""

    name = "boxoffice.audit"
    label = "audit"
    verbose_name = _("audit log")
    default_auto_field = "django.db.models.BigAutoField"

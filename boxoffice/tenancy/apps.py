"""The tenancy room."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TenancyConfig(AppConfig):
    """Tenants, tiers, members, and the scope that keeps tenants apart."""

    name = "boxoffice.tenancy"
    label = "tenancy"
    verbose_name = _("tenants and members")
    default_auto_field = "django.db.models.BigAutoField"

"""The tenancy room."""

from django.apps import AppConfig


class TenancyConfig(AppConfig):
    """Tenants, tiers, members, and the scope that keeps tenants apart."""

    name = "boxoffice.tenancy"
    label = "tenancy"
    default_auto_field = "django.db.models.BigAutoField"

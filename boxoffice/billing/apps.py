"""The billing room."""

from django.apps import AppConfig


class BillingConfig(AppConfig):
    """App of the billing room."""

    name = "boxoffice.billing"
    label = "billing"
    default_auto_field = "django.db.models.BigAutoField"

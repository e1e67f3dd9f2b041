"""The billing room."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _

from boxoffice.billing.list_prices import list_prices_seed


class BillingConfig(AppConfig):
    """App of the billing room."""

    name = "boxoffice.billing"
    label = "billing"
    verbose_name = _("costs")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Prices are there from the first migration on."""
        post_migrate.connect(list_prices_seed, sender=self)

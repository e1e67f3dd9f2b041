"""The ticketing room."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TicketingConfig(AppConfig):
    """App of the ticketing room."""

    name = "boxoffice.ticketing"
    label = "ticketing"
    verbose_name = _("box office")
    default_auto_field = "django.db.models.BigAutoField"

"""The ticketing room."""

from django.apps import AppConfig


class TicketingConfig(AppConfig):
    """App of the ticketing room."""

    name = "boxoffice.ticketing"
    label = "ticketing"
    default_auto_field = "django.db.models.BigAutoField"

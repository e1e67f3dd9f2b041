"""The agents room."""

from django.apps import AppConfig


class AgentsConfig(AppConfig):
    """App of the agents room."""

    name = "agents"
    label = "agents"
    default_auto_field = "django.db.models.BigAutoField"

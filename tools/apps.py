"""The tools room."""

from django.apps import AppConfig


class ToolsConfig(AppConfig):
    """App of the tools room."""

    name = "tools"
    label = "tools"
    default_auto_field = "django.db.models.BigAutoField"

"""The tools room."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from tools import registry


class ToolsConfig(AppConfig):
    """What an agent may do: contract, guard, dispatch, ledger, and the built-in tools."""

    name = "tools"
    label = "tools"
    verbose_name = _("tools")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Load the catalogue, which registers its tools, and what the room is to others."""
        autodiscover_modules("catalogue", "receivers", "sealing")
        registry.verify()

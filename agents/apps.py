"""The agents room."""

from django.apps import AppConfig
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _


class AgentsConfig(AppConfig):
    """Who decides the next step: conversations, runs, the loop, the gateway to the models."""

    name = "agents"
    label = "agents"
    verbose_name = _("conversations")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Connect what follows a commit."""
        # Notices first: a decision is told under the epoch that asked, before a worker claims anew.
        autodiscover_modules("notices", "receivers", "outside")

"""The demo's payment provider."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class AcquirerConfig(AppConfig):
    """App of the demo's payment provider."""

    name = "boxoffice.acquirer"
    label = "acquirer"
    verbose_name = _("demo payment provider")
    default_auto_field = "django.db.models.BigAutoField"

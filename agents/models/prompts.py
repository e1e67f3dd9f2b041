"""What models were told: one row for each distinct text, however many steps were asked with it."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.models import TenantModel


class PromptVersion(TenantModel):
    """A system prompt, the tools offered with it, and the model; never changed, never removed.

    ``system`` holds the blocks that stay the same from call to call, ``tools`` is ``[{"name",
    "version", "offer"}, …]`` with the offers as the model read them. ``digest`` names all three.
    """

    digest = models.CharField(_("digest"), max_length=32)
    model = models.CharField(_("model"), max_length=100)
    system = models.JSONField(_("system prompt"))
    tools = models.JSONField(_("offered tools"))
    created_at = models.DateTimeField(_("first used at"), auto_now_add=True)

    class Meta:
        verbose_name = _("prompt version")
        verbose_name_plural = _("prompt versions")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "digest"], name="promptversion_once")
        ]

    def __str__(self) -> str:
        return self.digest

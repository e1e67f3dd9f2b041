"""What the demo's payment provider remembers."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Movement(models.Model):
    """Money that was moved, or refused, for one key. Never changed."""

    key = models.CharField(_("key"), max_length=200, unique=True)
    charge_key = models.CharField(_("of the charge"), max_length=200, blank=True, default="")
    amount_minor = models.PositiveIntegerField(_("amount (centavos)"))
    refusal = models.CharField(_("refused because"), max_length=64, blank=True, default="")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("movement of money")
        verbose_name_plural = _("movements of money")
        constraints = [
            models.UniqueConstraint(
                fields=["charge_key"],
                condition=models.Q(refusal="") & ~models.Q(charge_key=""),
                name="movement_one_refund_per_charge",
            )
        ]

    def __str__(self) -> str:
        return self.key

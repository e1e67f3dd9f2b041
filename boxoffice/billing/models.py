"""What model calls cost, and who spent it."""

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.models import TenantModel


class ModelPrice(models.Model):
    """What a million tokens of a model cost from a day on, in millionths of a US dollar.

    Of the platform, not of a tenant. ``alias_prefix`` also covers dated names of the same model;
    the longest prefix that fits wins, and of its rows the newest that is valid already.
    """

    alias_prefix = models.CharField(_("model name begins with"), max_length=100)
    input_micros = models.PositiveBigIntegerField(_("input, per million tokens (millionths USD)"))
    output_micros = models.PositiveBigIntegerField(_("output, per million tokens (millionths USD)"))
    cache_read_micros = models.PositiveBigIntegerField(
        _("cache read, per million tokens (millionths USD)")
    )
    cache_write_micros = models.PositiveBigIntegerField(
        _("cache write, per million tokens (millionths USD)")
    )
    valid_from = models.DateTimeField(_("valid from"))

    class Meta:
        verbose_name = _("model price")
        verbose_name_plural = _("model prices")
        ordering = ["alias_prefix", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["alias_prefix", "valid_from"], name="modelprice_once_per_day"
            ),
            models.CheckConstraint(
                condition=~models.Q(alias_prefix=""), name="modelprice_prefix_not_empty"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.alias_prefix} ({self.valid_from:%Y-%m-%d})"


class UsageEntry(TenantModel):
    """One model call in the ledger: its tokens, and what they cost at that day's unit prices.

    Never changed. ``prices`` is ``{"input", "output", "cache_read", "cache_write", "matched"}``,
    in millionths of a US dollar per million tokens.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        verbose_name=_("on behalf of"),
    )
    run_ref = models.UUIDField(_("run"), null=True)
    model = models.CharField(_("model"), max_length=100)
    input_tokens = models.PositiveIntegerField(_("input tokens"), default=0)
    output_tokens = models.PositiveIntegerField(_("output tokens"), default=0)
    cache_read_tokens = models.PositiveIntegerField(_("tokens read from the cache"), default=0)
    cache_write_tokens = models.PositiveIntegerField(_("tokens written to the cache"), default=0)
    cost_micros = models.PositiveBigIntegerField(_("cost (millionths of a US dollar)"))
    prices = models.JSONField(_("unit prices"))
    created_at = models.DateTimeField(_("spent at"), auto_now_add=True)

    class Meta:
        verbose_name = _("usage entry")
        verbose_name_plural = _("usage entries")
        indexes = [
            models.Index(fields=["tenant", "user", "created_at"], name="usage_tenant_user_day"),
            models.Index(fields=["tenant", "run_ref"], name="usage_tenant_run"),
        ]

    def __str__(self) -> str:
        return f"{self.model}: {self.cost_micros} µUSD"

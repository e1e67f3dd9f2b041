"""What is on, and what it costs."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.models import TenantModel
from boxoffice.ticketing.models.places import Section, Venue


class Event(TenantModel):
    """One performance, at one time in one venue."""

    venue = models.ForeignKey(Venue, on_delete=models.PROTECT, related_name="events")
    slug = models.SlugField(_("slug"), max_length=120)
    title = models.CharField(_("title"), max_length=200)
    category = models.CharField(_("category"), max_length=60, blank=True, default="")
    description = models.TextField(_("description"), blank=True, default="")
    starts_at = models.DateTimeField(_("starts at"))
    sales_open = models.BooleanField(_("sales open"), default=True)

    class Meta:
        verbose_name = _("event")
        verbose_name_plural = _("events")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "slug"], name="event_slug_once"),
        ]
        indexes = [models.Index(fields=["tenant", "starts_at"], name="event_tenant_starts")]

    def __str__(self) -> str:
        return self.title


class Price(TenantModel):
    """What a seat of a section costs at an event; a section without one is not for sale."""

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="prices")
    section = models.ForeignKey(Section, on_delete=models.PROTECT, related_name="prices")
    amount_minor = models.PositiveIntegerField(_("price (centavos)"))

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        constraints = [
            models.UniqueConstraint(fields=["event", "section"], name="price_once"),
        ]
        indexes = [models.Index(fields=["tenant", "event"], name="price_tenant_event")]

    def __str__(self) -> str:
        return f"{self.section}: {self.amount_minor}"

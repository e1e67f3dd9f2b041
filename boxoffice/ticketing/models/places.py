"""Venues and their seats."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.models import TenantModel


class Venue(TenantModel):
    """A house with numbered seats."""

    name = models.CharField(_("name"), max_length=200)
    city = models.CharField(_("city"), max_length=100)
    address = models.CharField(_("address"), max_length=300, blank=True, default="")

    class Meta:
        verbose_name = _("venue")
        verbose_name_plural = _("venues")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "name"], name="venue_name_once"),
        ]

    def __str__(self) -> str:
        return self.name


class Section(TenantModel):
    """A part of a venue whose seats cost the same."""

    venue = models.ForeignKey(Venue, on_delete=models.CASCADE, related_name="sections")
    name = models.CharField(_("name"), max_length=100)
    colour = models.CharField(_("colour on the map"), max_length=7, default="#6b7280")
    position = models.PositiveSmallIntegerField(_("position"), default=0)

    class Meta:
        verbose_name = _("section")
        verbose_name_plural = _("sections")
        constraints = [
            models.UniqueConstraint(fields=["venue", "name"], name="section_name_once"),
        ]
        indexes = [models.Index(fields=["tenant", "venue"], name="section_tenant_venue")]

    def __str__(self) -> str:
        return self.name


class Seat(TenantModel):
    """One numbered seat; consecutive numbers of a row are neighbours.

    ``x`` and ``y`` place it on the venue's map, in units of a seat's width, the stage at the top.
    """

    section = models.ForeignKey(Section, on_delete=models.CASCADE, related_name="seats")
    row = models.CharField(_("row"), max_length=8)
    number = models.PositiveSmallIntegerField(_("number"))
    x = models.FloatField(_("x"), default=0)
    y = models.FloatField(_("y"), default=0)

    class Meta:
        verbose_name = _("seat")
        verbose_name_plural = _("seats")
        constraints = [
            models.UniqueConstraint(fields=["section", "row", "number"], name="seat_once"),
        ]
        indexes = [models.Index(fields=["tenant", "section"], name="seat_tenant_section")]

    def __str__(self) -> str:
        return f"{self.row}{self.number}"

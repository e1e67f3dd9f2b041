"""The box office in the console: programme and prices are edited, sales are read."""

from typing import Any

from django.contrib import admin, messages
from django.db import models
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.console import (
    ADD,
    CHANGE,
    VIEW,
    ConsoleAdmin,
    EditableRows,
    MachineRows,
    MachineWritten,
)
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import (
    Event,
    Hold,
    Order,
    OutboundEmail,
    Payment,
    Price,
    Refund,
    Seat,
    SeatClaim,
    Section,
    SupportTicket,
    Venue,
)
from boxoffice.ticketing.services.emails import email_settle
from boxoffice.ticketing.services.tickets import ticket_close

EDITABLE = frozenset({VIEW, ADD, CHANGE})


def money(minor: int | None) -> str:
    """Centavos as people read them: ``24050 -> R$ 240,50``."""
    if minor is None:
        return "-"
    whole, cents = divmod(minor, 100)
    return f"R$ {whole:,}".replace(",", ".") + f",{cents:02d}"


class SectionRows(EditableRows):
    """The sections of a venue."""

    model = Section
    fields = ["name", "colour", "position"]


class PriceRows(EditableRows):
    """What each section costs at an event."""

    model = Price
    fields = ["section", "amount_minor"]


class ClaimRows(MachineRows):
    """The seats of a hold or an order."""

    model = SeatClaim
    fields = readonly_fields = ["seat", "price", "released_at"]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[SeatClaim]:
        """With the seats."""
        return super().get_queryset(request).select_related("seat")  # type: ignore[no-any-return]

    @admin.display(description=_("price"))
    def price(self, claim: SeatClaim) -> str:
        """In reais."""
        return money(claim.price_minor)


@admin.register(Venue)
class VenueAdmin(ConsoleAdmin):
    """Houses."""

    tenant_admin_may = EDITABLE
    list_display = ["name", "city", "tenant"]
    list_filter = ["tenant", "city"]
    list_select_related = ["tenant"]
    search_fields = ["name", "city"]
    inlines = [SectionRows]


@admin.register(Section)
class SectionAdmin(ConsoleAdmin):
    """Parts of houses."""

    tenant_admin_may = EDITABLE
    list_display = ["name", "venue", "position", "tenant"]
    list_filter = ["venue", "tenant"]
    list_select_related = ["venue", "tenant"]
    search_fields = ["name", "venue__name"]


@admin.register(Seat)
class SeatAdmin(ConsoleAdmin):
    """Numbered seats and where they are on the map."""

    tenant_admin_may = EDITABLE
    list_display = ["row", "number", "section", "x", "y", "tenant"]
    list_filter = ["section", "tenant"]
    list_select_related = ["section", "tenant"]
    search_fields = ["row", "section__name"]
    ordering = ["section", "row", "number"]


@admin.register(Event)
class EventAdmin(ConsoleAdmin):
    """What is on."""

    tenant_admin_may = EDITABLE
    deferred = ("description",)
    list_display = ["title", "starts_at", "venue", "category", "sales_open", "tenant"]
    list_filter = ["sales_open", "category", "venue", "tenant"]
    list_select_related = ["venue", "tenant"]
    search_fields = ["title", "venue__name"]
    date_hierarchy = "starts_at"
    ordering = ["starts_at"]
    prepopulated_fields = {"slug": ["title"]}
    inlines = [PriceRows]

    def get_prepopulated_fields(self, request: HttpRequest, obj: Any = None) -> dict[str, Any]:
        """Only while the event is new: its address must not move."""
        return super().get_prepopulated_fields(request, obj) if obj is None else {}


@admin.register(Price)
class PriceAdmin(ConsoleAdmin):
    """What seats cost. A hold keeps the price at which it was made."""

    tenant_admin_may = EDITABLE
    list_display = ["event", "section", "price", "tenant"]
    list_filter = ["event__venue", "tenant"]
    list_select_related = ["event", "section", "tenant"]
    search_fields = ["event__title", "section__name"]

    @admin.display(description=_("price"), ordering="amount_minor")
    def price(self, price: Price) -> str:
        """In reais."""
        return money(price.amount_minor)


@admin.register(Hold)
class HoldAdmin(MachineWritten):
    """Seats that are or were kept for somebody."""

    list_display = ["created_at", "event", "user", "status", "expires_at", "tenant"]
    list_filter = ["status", "tenant", "created_at"]
    list_select_related = ["event", "user", "tenant"]
    search_fields = ["=id", "user__username", "event__title"]
    ordering = ["-id"]
    inlines = [ClaimRows]


@admin.register(SeatClaim)
class SeatClaimAdmin(MachineWritten):
    """Which seat is whose, now and before."""

    list_display = ["event", "seat", "hold", "order", "price", "released_at", "tenant"]
    list_filter = ["released_at", "tenant"]
    list_select_related = ["event", "seat", "hold__event", "order__event", "tenant"]
    search_fields = ["=hold__id", "=order__id", "event__title"]
    ordering = ["-id"]

    @admin.display(description=_("price"), ordering="price_minor")
    def price(self, claim: SeatClaim) -> str:
        """In reais."""
        return money(claim.price_minor)


@admin.register(Order)
class OrderAdmin(MachineWritten):
    """What was bought."""

    list_display = ["created_at", "event", "user", "total", "status", "tenant"]
    list_filter = ["status", "tenant", "created_at"]
    list_select_related = ["event", "user", "tenant"]
    search_fields = ["=id", "user__username", "event__title"]
    ordering = ["-id"]
    inlines = [ClaimRows]

    @admin.display(description=_("total"), ordering="total_minor")
    def total(self, order: Order) -> str:
        """In reais."""
        return money(order.total_minor)


class _MoneyAdmin(MachineWritten):
    list_filter = ["status", "tenant", "created_at"]
    list_select_related = ["order__event", "tenant"]
    search_fields = ["=id", "=order__id", "=reference"]
    ordering = ["-id"]

    @admin.display(description=_("amount"), ordering="amount_minor")
    def amount(self, row: Any) -> str:
        """In reais."""
        return money(row.amount_minor)


@admin.register(Payment)
class PaymentAdmin(_MoneyAdmin):
    """Money that was taken."""

    list_display = ["created_at", "order", "amount", "provider", "status", "tenant"]


@admin.register(Refund)
class RefundAdmin(_MoneyAdmin):
    """Money that was given back."""

    list_display = ["created_at", "order", "amount", "reason", "status", "tenant"]


@admin.register(SupportTicket)
class SupportTicketAdmin(MachineWritten):
    """What people of the tenant should look at."""

    deferred = ("body",)
    list_display = ["created_at", "subject", "user", "status", "tenant"]
    list_filter = ["status", "tenant", "created_at"]
    list_select_related = ["user", "tenant"]
    search_fields = ["=reference", "subject", "user__username"]
    ordering = ["-id"]
    actions = ["close"]

    @admin.action(description=_("Close the selected tickets"))
    def close(self, request: HttpRequest, queryset: models.QuerySet[SupportTicket]) -> None:
        """Nothing more is to be done about them."""
        count = sum(ticket_close(ticket=ticket) for ticket in queryset)
        messages.success(request, _("%(count)d tickets closed.") % {"count": count})


@admin.register(OutboundEmail)
class OutboundEmailAdmin(MachineWritten):
    """E-mail on its way, and sent."""

    deferred = ("body",)
    list_display = ["created_at", "to", "subject", "status", "attempts", "sent_at", "tenant"]
    list_filter = ["status", "tenant", "created_at"]
    list_select_related = ["tenant"]
    search_fields = ["=to", "=message_id", "subject"]
    ordering = ["-id"]
    actions = ["went_out", "send_again"]

    @admin.action(description=_("It went out (outcome unknown so far)"))
    def went_out(self, request: HttpRequest, queryset: models.QuerySet[OutboundEmail]) -> None:
        """Somebody has found out that the mail server took it."""
        self._settle(request, queryset, went_out=True)

    @admin.action(description=_("Send again (outcome unknown so far)"))
    def send_again(self, request: HttpRequest, queryset: models.QuerySet[OutboundEmail]) -> None:
        """It did not go out, or a second one does no harm."""
        self._settle(request, queryset, went_out=False)

    def _settle(
        self, request: HttpRequest, queryset: models.QuerySet[OutboundEmail], *, went_out: bool
    ) -> None:
        count = 0
        for email_id, tenant_id in queryset.values_list("pk", "tenant_id"):
            with tenant_scope(tenant_id):
                count += email_settle(
                    email_id=email_id, went_out=went_out, actor=f"user:{request.user.pk}"
                )
        messages.success(request, _("%(count)d e-mails settled.") % {"count": count})

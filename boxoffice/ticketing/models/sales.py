"""Holds, orders and money, and the one constraint that keeps two fans off the same seat.

A ``SeatClaim`` is live until it is released. The database allows one live claim per event and
seat, so holding or buying a seat twice is impossible whatever the code does.
"""

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from boxoffice.common.transitions import machine
from boxoffice.tenancy.models import TenantModel, User
from boxoffice.ticketing.models.events import Event
from boxoffice.ticketing.models.places import Seat


class HoldStatus(models.TextChoices):
    """Where a hold stands."""

    ACTIVE = "active", _("active")
    PAYING = "paying", _("being paid")
    RELEASED = "released", _("released")
    EXPIRED = "expired", _("expired")
    CONVERTED = "converted", _("bought")


HOLD = machine(
    "status",
    {
        HoldStatus.ACTIVE: {
            HoldStatus.RELEASED,
            HoldStatus.EXPIRED,
            HoldStatus.PAYING,
            HoldStatus.CONVERTED,
        },
        # Never by the clock: only what the payment comes to ends it.
        HoldStatus.PAYING: {HoldStatus.CONVERTED, HoldStatus.ACTIVE},
        HoldStatus.RELEASED: set(),
        HoldStatus.EXPIRED: set(),
        HoldStatus.CONVERTED: set(),
    },
)


class Hold(TenantModel):
    """Seats kept for one fan for a while."""

    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="holds")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="holds")
    status = models.CharField(
        _("status"), max_length=16, choices=HoldStatus, default=HoldStatus.ACTIVE
    )
    expires_at = models.DateTimeField(_("expires at"))
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("hold")
        verbose_name_plural = _("holds")
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=HoldStatus.values), name="hold_status_known"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "user"], name="hold_tenant_user"),
            models.Index(
                fields=["tenant", "expires_at"],
                condition=Q(status="active"),
                name="hold_tenant_expiry",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} ({self.status})"

    def status_at(self, moment: datetime) -> str:
        """The status as it is true at ``moment``: a hold past its time no longer holds."""
        if self.status == HoldStatus.ACTIVE and self.expires_at <= moment:
            return HoldStatus.EXPIRED
        return self.status


class OrderStatus(models.TextChoices):
    """Where an order stands."""

    PENDING = "pending", _("being paid")
    PAID = "paid", _("paid")
    REFUNDED = "refunded", _("refunded")
    CANCELLED = "cancelled", _("not paid")


ORDER = machine(
    "status",
    {
        OrderStatus.PENDING: {OrderStatus.PAID, OrderStatus.CANCELLED},
        OrderStatus.PAID: {OrderStatus.REFUNDED},
        OrderStatus.REFUNDED: set(),
        OrderStatus.CANCELLED: set(),
    },
)


class Order(TenantModel):
    """A hold that is being paid, and what became of it; a hold has one that is not cancelled."""

    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="orders")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="orders")
    hold = models.ForeignKey(Hold, on_delete=models.PROTECT, related_name="orders")
    total_minor = models.PositiveIntegerField(_("total (centavos)"))
    status = models.CharField(
        _("status"), max_length=16, choices=OrderStatus, default=OrderStatus.PAID
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("order")
        verbose_name_plural = _("orders")
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=OrderStatus.values), name="order_status_known"
            ),
            models.UniqueConstraint(
                fields=["hold"], condition=~Q(status="cancelled"), name="order_once_per_hold"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "user"], name="order_tenant_user"),
            models.Index(fields=["tenant", "event"], name="order_tenant_event"),
        ]

    def __str__(self) -> str:
        return f"{self.event} ({self.status})"


class SeatClaim(TenantModel):
    """A seat of an event that a hold, and later its order, has; history once it is released.

    ``price_minor`` is what the seat cost when it was held, and what the order pays.
    """

    event = models.ForeignKey(Event, on_delete=models.PROTECT, related_name="claims")
    seat = models.ForeignKey(Seat, on_delete=models.PROTECT, related_name="claims")
    hold = models.ForeignKey(Hold, on_delete=models.CASCADE, related_name="claims")
    order = models.ForeignKey(
        Order, on_delete=models.PROTECT, related_name="claims", null=True, blank=True
    )
    price_minor = models.PositiveIntegerField(_("price (centavos)"))
    released_at = models.DateTimeField(_("released at"), null=True, blank=True)

    class Meta:
        verbose_name = _("seat claim")
        verbose_name_plural = _("seat claims")
        constraints = [
            models.UniqueConstraint(
                fields=["event", "seat"],
                condition=Q(released_at__isnull=True),
                name="seatclaim_one_live_per_seat",
            ),
            models.UniqueConstraint(fields=["hold", "seat"], name="seatclaim_once_per_hold"),
        ]
        indexes = [
            models.Index(
                fields=["tenant", "event"],
                condition=Q(released_at__isnull=True),
                name="seatclaim_tenant_live",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event}: {self.seat}"


class PaymentStatus(models.TextChoices):
    """Where the money is."""

    PENDING = "pending", _("asked for")
    CAPTURED = "captured", _("captured")
    REFUNDED = "refunded", _("refunded")
    FAILED = "failed", _("not taken")


PAYMENT = machine(
    "status",
    {
        PaymentStatus.PENDING: {PaymentStatus.CAPTURED, PaymentStatus.FAILED},
        PaymentStatus.CAPTURED: {PaymentStatus.REFUNDED},
        PaymentStatus.REFUNDED: set(),
        PaymentStatus.FAILED: set(),
    },
)


class Payment(TenantModel):
    """Money asked for an order; ``reference`` is the key that the provider knows it by."""

    order = models.OneToOneField(Order, on_delete=models.PROTECT, related_name="payment")
    amount_minor = models.PositiveIntegerField(_("amount (centavos)"))
    provider = models.CharField(_("provider"), max_length=40)
    provider_id = models.CharField(_("id at the provider"), max_length=200, blank=True)
    reference = models.CharField(_("reference"), max_length=200)
    status = models.CharField(
        _("status"), max_length=16, choices=PaymentStatus, default=PaymentStatus.CAPTURED
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("payment")
        verbose_name_plural = _("payments")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "reference"], name="payment_reference_once"),
            models.CheckConstraint(
                condition=Q(status__in=PaymentStatus.values), name="payment_status_known"
            ),
        ]

    def __str__(self) -> str:
        return self.reference


class RefundStatus(models.TextChoices):
    """Where a refund stands."""

    PENDING = "pending", _("pending")
    REFUNDED = "refunded", _("refunded")
    FAILED = "failed", _("not given back")


REFUND = machine(
    "status",
    {
        RefundStatus.PENDING: {RefundStatus.REFUNDED, RefundStatus.FAILED},
        RefundStatus.REFUNDED: set(),
        RefundStatus.FAILED: set(),
    },
)


class Refund(TenantModel):
    """Money given back for an order, once: an order has one that has not failed."""

    order = models.ForeignKey(Order, on_delete=models.PROTECT, related_name="refunds")
    amount_minor = models.PositiveIntegerField(_("amount (centavos)"))
    reason = models.CharField(_("reason"), max_length=500)
    reference = models.CharField(_("reference"), max_length=200)
    status = models.CharField(
        _("status"), max_length=16, choices=RefundStatus, default=RefundStatus.PENDING
    )
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("refund")
        verbose_name_plural = _("refunds")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "reference"], name="refund_reference_once"),
            models.CheckConstraint(
                condition=Q(status__in=RefundStatus.values), name="refund_status_known"
            ),
            models.UniqueConstraint(
                fields=["order"], condition=~Q(status="failed"), name="refund_once_per_order"
            ),
        ]

    def __str__(self) -> str:
        return self.reference

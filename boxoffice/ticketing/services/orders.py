"""Buying what is held, and giving the money back: each once, whoever repeats."""

from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from boxoffice.common import clock
from boxoffice.common.transitions import transition
from boxoffice.ticketing.exceptions import AlreadyRefunded, KeyReused, OrderNotFound, SalesClosed
from boxoffice.ticketing.models import Hold, Order, Payment, Refund, SeatClaim
from boxoffice.ticketing.models.sales import (
    HOLD,
    ORDER,
    PAYMENT,
    REFUND,
    HoldStatus,
    OrderStatus,
    PaymentStatus,
    RefundStatus,
)
from boxoffice.ticketing.services.holds import hold_lock, require_live
from boxoffice.ticketing.services.payments import payment_provider


def order_place(*, hold_id: UUID, user_id: int, payment_key: str) -> Order:
    """Pay a fan's live hold at the prices at which it was held.

    A repeat with the same ``payment_key`` returns the same order and takes no money. Raises
    ``HoldNotFound``, ``HoldExpired``, ``HoldNotActive``, ``SalesClosed``, ``PaymentDeclined``,
    and ``KeyReused`` when the key paid for another hold.
    """
    with transaction.atomic():
        hold = hold_lock(hold_id=hold_id, user_id=user_id)
        paid = Payment.objects.select_related("order").filter(reference=payment_key).first()
        if paid is not None:
            if paid.order.hold_id != hold.pk:
                raise KeyReused
            return paid.order
        moment = clock.now()
        require_live(hold, moment)
        if not hold.event.sales_open or hold.event.starts_at <= moment:
            raise SalesClosed
        return _buy(hold, payment_key)


def _buy(hold: Hold, payment_key: str) -> Order:
    claims = SeatClaim.objects.filter(hold=hold, released_at__isnull=True)
    total = claims.aggregate(total=Sum("price_minor"))["total"]
    charge = payment_provider().charge(
        reference=payment_key, amount_minor=total, description=hold.event.title
    )
    transition(Hold.objects.filter(pk=hold.pk), HOLD, HoldStatus.CONVERTED)
    order: Order = Order.objects.create(
        event=hold.event, user_id=hold.user_id, hold=hold, total_minor=total
    )
    claims.update(order=order)
    Payment.objects.create(
        order=order,
        amount_minor=charge.amount_minor,
        provider=charge.provider,
        provider_id=charge.provider_id,
        reference=payment_key,
    )
    return order


def order_refund(*, order_id: UUID, user_id: int | None, reason: str, refund_key: str) -> Refund:
    """Give an order's money back and free its seats, once.

    ``user_id`` is whose order it must be; the house itself (a reviewer in the console) says
    ``None``. A repeat with the same ``refund_key`` returns the same refund. Raises
    ``OrderNotFound``, and ``AlreadyRefunded`` when another request was first.
    """
    with transaction.atomic():
        rows = Order.objects.select_for_update(no_key=True).filter(pk=order_id)
        order = (rows if user_id is None else rows.filter(user_id=user_id)).first()
        if order is None:
            raise OrderNotFound
        known = Refund.objects.filter(order=order).first()
        if known is not None:
            if known.reference == refund_key:
                return known
            raise AlreadyRefunded
        if Refund.objects.filter(reference=refund_key).exists():
            raise KeyReused
        return _give_back(order, reason, refund_key)


def _give_back(order: Order, reason: str, refund_key: str) -> Refund:
    refund: Refund = Refund.objects.create(
        order=order, amount_minor=order.total_minor, reason=reason, reference=refund_key
    )
    payment_provider().refund(
        reference=refund_key,
        provider_id=order.payment.provider_id,
        amount_minor=order.total_minor,
    )
    transition(Payment.objects.filter(order=order), PAYMENT, PaymentStatus.REFUNDED)
    transition(Order.objects.filter(pk=order.pk), ORDER, OrderStatus.REFUNDED)
    transition(Refund.objects.filter(pk=refund.pk), REFUND, RefundStatus.REFUNDED)
    SeatClaim.objects.filter(order=order, released_at__isnull=True).update(released_at=clock.now())
    refund.refresh_from_db()
    return refund

"""Buying what is held, and giving the money back: each once, whoever repeats.

The money is moved by somebody else, over a network, so each has two halves. The first writes down
what is about to be asked for, and keeps the seats; the second, what became of it. Between them the
provider is asked (``services.payments``) while no transaction is open.
"""

from uuid import UUID

from django.db import transaction
from django.db.models import Sum

from boxoffice.common import clock
from boxoffice.common.transitions import transition
from boxoffice.ticketing.exceptions import (
    AlreadyRefunded,
    KeyReused,
    OrderNotFound,
    PaymentSettled,
    RefundUnderWay,
    SalesClosed,
)
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
from boxoffice.ticketing.services.holds import hold_lock, hold_unpaid, require_live


def order_begin(*, hold_id: UUID, user_id: int, payment_key: str, provider: str) -> Order:
    """Order a fan's live hold at the prices at which it was held; its payment is asked for next.

    From here on the hold does not end by the clock. A repeat with the same ``payment_key`` returns
    the same order. Raises ``HoldNotFound``, ``HoldExpired``, ``HoldNotActive``, ``SalesClosed``,
    and ``KeyReused`` when the key paid for another hold.
    """
    with transaction.atomic():
        hold = hold_lock(hold_id=hold_id, user_id=user_id)
        known = Payment.objects.select_related("order").filter(reference=payment_key).first()
        if known is not None:
            if known.order.hold_id != hold.pk:
                raise KeyReused
            return known.order
        moment = clock.now()
        require_live(hold, moment)
        if not hold.event.sales_open or hold.event.starts_at <= moment:
            raise SalesClosed
        return _reserve(hold, payment_key, provider)


def _reserve(hold: Hold, payment_key: str, provider: str) -> Order:
    claims = SeatClaim.objects.filter(hold=hold, released_at__isnull=True)
    total = claims.aggregate(total=Sum("price_minor"))["total"]
    transition(Hold.objects.filter(pk=hold.pk), HOLD, HoldStatus.PAYING)
    order: Order = Order.objects.create(
        event=hold.event,
        user_id=hold.user_id,
        hold=hold,
        total_minor=total,
        status=OrderStatus.PENDING,
    )
    claims.update(order=order)
    Payment.objects.create(
        order=order,
        amount_minor=total,
        provider=provider,
        provider_id="",
        reference=payment_key,
        status=PaymentStatus.PENDING,
    )
    return order


def order_pay(*, payment_key: str, provider_id: str) -> Order:
    """The money was taken: the order is paid, its seats are sold. A repeat changes nothing.

    Raises ``OrderNotFound``, and ``PaymentSettled`` when it was written down as not taken.
    """
    with transaction.atomic():
        payment = _payment_lock(payment_key)
        order: Order = payment.order
        if payment.status == PaymentStatus.FAILED:
            raise PaymentSettled
        row = Payment.objects.filter(pk=payment.pk)
        if transition(row, PAYMENT, PaymentStatus.CAPTURED, provider_id=provider_id):
            transition(Order.objects.filter(pk=order.pk), ORDER, OrderStatus.PAID)
            transition(Hold.objects.filter(pk=order.hold_id), HOLD, HoldStatus.CONVERTED)
            order.refresh_from_db()
        return order


def order_cancel(*, payment_key: str) -> Order:
    """No money was taken: the order is off, its hold goes on or ends. A repeat changes nothing.

    Raises ``OrderNotFound``, and ``PaymentSettled`` when it was written down as taken.
    """
    with transaction.atomic():
        payment = _payment_lock(payment_key)
        order: Order = payment.order
        if payment.status in (PaymentStatus.CAPTURED, PaymentStatus.REFUNDED):
            raise PaymentSettled
        if transition(Payment.objects.filter(pk=payment.pk), PAYMENT, PaymentStatus.FAILED):
            transition(Order.objects.filter(pk=order.pk), ORDER, OrderStatus.CANCELLED)
            SeatClaim.objects.filter(order=order).update(order=None)
            hold_unpaid(hold_id=order.hold_id)
            order.refresh_from_db()
        return order


def _payment_lock(payment_key: str) -> Payment:
    rows = Payment.objects.select_for_update(no_key=True, of=("self",)).select_related("order")
    payment: Payment | None = rows.filter(reference=payment_key).first()
    if payment is None:
        raise OrderNotFound
    return payment


def refund_begin(*, order_id: UUID, user_id: int | None, reason: str, refund_key: str) -> Refund:
    """Write down that an order's money is to be given back; the provider is asked next.

    ``user_id`` is whose order it must be; the house itself (a reviewer in the console) says
    ``None``. A repeat with the same ``refund_key`` returns the same refund. Raises
    ``OrderNotFound``, and ``RefundUnderWay`` or ``AlreadyRefunded`` when another was first.
    """
    with transaction.atomic():
        rows = Order.objects.select_for_update(no_key=True).filter(pk=order_id)
        order = (rows if user_id is None else rows.filter(user_id=user_id)).first()
        if order is None:
            raise OrderNotFound
        known = Refund.objects.filter(reference=refund_key).first()
        if known is not None:
            if known.order_id != order.pk:
                raise KeyReused
            return known
        if order.status == OrderStatus.REFUNDED:
            raise AlreadyRefunded
        if order.status != OrderStatus.PAID:
            raise OrderNotFound  # no money was taken
        if Refund.objects.filter(order=order, status=RefundStatus.PENDING).exists():
            raise RefundUnderWay
        refund: Refund = Refund.objects.create(
            order=order, amount_minor=order.total_minor, reason=reason, reference=refund_key
        )
        return refund


def refund_complete(*, refund_key: str) -> Refund:
    """The money was given back: its seats are free. A repeat changes nothing.

    Raises ``OrderNotFound``, and ``PaymentSettled`` when it was written down as not given.
    """
    with transaction.atomic():
        refund = _refund_lock(refund_key)
        if refund.status == RefundStatus.FAILED:
            raise PaymentSettled
        if transition(Refund.objects.filter(pk=refund.pk), REFUND, RefundStatus.REFUNDED):
            order_id = refund.order_id
            transition(Payment.objects.filter(order=order_id), PAYMENT, PaymentStatus.REFUNDED)
            transition(Order.objects.filter(pk=order_id), ORDER, OrderStatus.REFUNDED)
            SeatClaim.objects.filter(order=order_id, released_at__isnull=True).update(
                released_at=clock.now()
            )
            refund.refresh_from_db()
        return refund


def refund_fail(*, refund_key: str) -> Refund:
    """The money was not given back: the order stays paid. A repeat changes nothing.

    Raises ``OrderNotFound``, and ``PaymentSettled`` when it was written down as given.
    """
    with transaction.atomic():
        refund = _refund_lock(refund_key)
        if refund.status == RefundStatus.REFUNDED:
            raise PaymentSettled
        if transition(Refund.objects.filter(pk=refund.pk), REFUND, RefundStatus.FAILED):
            refund.refresh_from_db()
        return refund


def _refund_lock(refund_key: str) -> Refund:
    rows = Refund.objects.select_for_update(no_key=True)
    refund: Refund | None = rows.filter(reference=refund_key).first()
    if refund is None:
        raise OrderNotFound
    return refund

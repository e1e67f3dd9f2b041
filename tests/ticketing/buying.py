"""Buying and giving back with a provider that says yes at once, and remembers the charge."""

from typing import Any

from boxoffice.acquirer.models import Movement
from boxoffice.ticketing.models import Order, Refund
from boxoffice.ticketing.services.orders import (
    order_begin,
    order_pay,
    refund_begin,
    refund_complete,
)


def order_place(*, payment_key: str, **asked: Any) -> Order:
    """Order a hold and pay it; a repeat with the same key is the same order."""
    order = order_begin(**asked, payment_key=payment_key, provider="demo")
    Movement.objects.get_or_create(key=payment_key, defaults={"amount_minor": order.total_minor})
    return order_pay(payment_key=payment_key, provider_id=f"t-{payment_key}")


def order_refund(*, refund_key: str, **asked: Any) -> Refund:
    """Ask for an order's money back, and get it; a repeat with the same key is the same refund."""
    refund_begin(**asked, refund_key=refund_key)
    return refund_complete(refund_key=refund_key)

"""Buying, looking orders up, giving money back."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override
from pydantic import Field

from boxoffice.common import clock
from boxoffice.common.types import JsonObject, brl
from boxoffice.ticketing.exceptions import (
    AlreadyRefunded,
    HoldExpired,
    HoldNotActive,
    HoldNotFound,
    OrderNotFound,
    RefundUnderWay,
    SalesClosed,
)
from boxoffice.ticketing.models.sales import HoldStatus, OrderStatus, RefundStatus
from boxoffice.ticketing.selectors.claims import FREE, HELD, SOLD
from boxoffice.ticketing.selectors.sales import HoldRow, OrderRow, hold_of, list_price, order_of
from boxoffice.ticketing.services.holds import hold_extend, hold_release
from boxoffice.ticketing.services.orders import (
    order_begin,
    order_cancel,
    order_pay,
    refund_begin,
    refund_complete,
    refund_fail,
)
from boxoffice.ticketing.services.payments import payment_provider, receipt_match
from tools.catalogue.shapes import (
    SeatOut,
    Text,
    fan_id,
    local,
    money,
    seats_out,
    seats_shown,
)
from tools.outside import OutsideText
from tools.personal import Personal
from tools.registry import tool
from tools.spec import Gate, Remote, Risk, ToolContext, ToolInput, ToolOutput

EXAMPLE_ORDER = "019ae000-0000-7000-8000-000000000003"


class PlaceOrderInput(ToolInput):
    """Which hold to pay."""

    hold_id: UUID = Field(description="The hold_id that hold_seats returned.")


class PlaceOrderOutput(ToolOutput):
    """What was bought."""

    order_id: UUID
    event: OutsideText
    starts_at: str
    seats: list[SeatOut]
    total_brl: float
    status: Literal["paid"]


class GetOrderStatusInput(ToolInput):
    """Which order."""

    order_id: UUID = Field(description="The order number, as place_order returned it.")


class RefundOut(ToolOutput):
    """Money given back, in BRL."""

    id: UUID
    amount_brl: float
    status: str
    reason: Annotated[OutsideText, Personal()]


class GetOrderStatusOutput(ToolOutput):
    """The order as it stands."""

    order_id: UUID
    status: str
    event: OutsideText
    starts_at: str
    seats: list[SeatOut]
    total_brl: float
    refunds: list[RefundOut]


class RefundOrderInput(ToolInput):
    """Which order, and why."""

    order_id: UUID = Field(description="The order number, as place_order returned it.")
    reason: Annotated[Text, Personal()] = Field(
        min_length=3,
        max_length=500,
        description="Why the fan wants the money back, in the fan's own words. Never invent one.",
    )


class RefundOrderOutput(ToolOutput):
    """The money is on its way back."""

    refund_id: UUID
    order_id: UUID
    amount_brl: float
    status: Literal["refunded"]


def _order_preview(context: ToolContext, arguments: PlaceOrderInput) -> JsonObject:
    hold = _live_hold(context, arguments.hold_id)
    with override(context.language):
        summary = ngettext(
            "Buy %(count)d seat for %(event)s, %(total)s in all",
            "Buy %(count)d seats for %(event)s, %(total)s in all",
            len(hold.seats),
        ) % {
            "count": len(hold.seats),
            "event": hold.event.title,
            "total": money(hold.total_minor),
        }
        undo = _("Cannot be undone; the box office can refund the order.")
        warnings = _price_warnings(hold)
    shown: JsonObject = {"event": hold.event.title, "starts_at": _start(context, hold)}
    return {
        "summary": summary,
        "before": {
            **shown,
            "hold": str(hold.id),
            "status": hold.status,
            "seats": seats_shown(hold.seats, HELD),
            "paid_brl": 0.0,
        },
        "after": {
            **shown,
            "status": OrderStatus.PAID.value,
            "seats": seats_shown(hold.seats, SOLD),
            "paid_brl": brl(hold.total_minor),
        },
        "warnings": warnings,
        "undo": undo,
    }


def _price_warnings(hold: HoldRow) -> list[str]:
    """Says so when the price list has moved, which also makes an earlier approval void."""
    now_costs = list_price(hold)
    if now_costs == hold.total_minor:
        return []
    if now_costs is None:
        return [_("Some of these seats are no longer on the price list.")]
    return [
        _("The price list has changed: these seats now cost %(now)s; held at %(held)s.")
        % {"now": money(now_costs), "held": money(hold.total_minor)}
    ]


def _live_hold(context: ToolContext, hold_id: UUID) -> HoldRow:
    hold = hold_of(hold_id=hold_id, user_id=fan_id(context))
    if hold.status == HoldStatus.EXPIRED:
        raise HoldExpired
    if hold.status != HoldStatus.ACTIVE:
        raise HoldNotActive(hold.status)
    if not hold.event.sales_open or hold.event.starts_at <= clock.now():
        raise SalesClosed
    return hold


def _start(context: ToolContext, row: HoldRow | OrderRow) -> str:
    return local(context, row.event.starts_at)


def _keep(context: ToolContext, arguments: PlaceOrderInput, until: datetime) -> None:
    hold = hold_of(hold_id=arguments.hold_id, user_id=fan_id(context))
    hold_extend(hold_id=hold.id, until=until)


def _let_go(context: ToolContext, arguments: PlaceOrderInput) -> None:
    try:
        hold_release(hold_id=arguments.hold_id, user_id=fan_id(context))
    except (HoldNotFound, HoldNotActive):
        return


def _order_begin(context: ToolContext, arguments: PlaceOrderInput) -> JsonObject:
    order = order_begin(
        hold_id=arguments.hold_id,
        user_id=fan_id(context),
        payment_key=context.idempotency_key,
        provider=payment_provider().name,
    )
    return {"amount_minor": order.total_minor, "description": order.event.title}


async def _charge(key: str, request: JsonObject) -> JsonObject:
    receipt = await payment_provider().charge(
        key=key, amount_minor=request["amount_minor"], description=request["description"]
    )
    return _matched(key, request, receipt)


async def _money_moved(key: str, request: JsonObject) -> JsonObject | None:
    receipt = await payment_provider().lookup(key=key)
    return None if receipt is None else _matched(key, request, receipt)


def _matched(key: str, request: JsonObject, receipt: JsonObject) -> JsonObject:
    """Nothing is paid, or given back, by a receipt for something else."""
    return receipt_match(
        receipt,
        key=key,
        amount_minor=request["amount_minor"],
        charge_key=request.get("charge", ""),
    )


def _order_off(context: ToolContext, arguments: PlaceOrderInput) -> None:
    order_cancel(payment_key=context.idempotency_key)


@tool(
    "place_order",
    risk=Risk.DESTRUCTIVE,
    gate=Gate.FAN,
    preview=_order_preview,
    on_gated=_keep,
    on_refused=_let_go,
    remote=Remote(
        provider=lambda: payment_provider().name,
        begin=_order_begin,
        send=_charge,
        lookup=_money_moved,
        fail=_order_off,
        is_idempotent=True,
    ),
    examples=({"hold_id": "019ae000-0000-7000-8000-000000000002"},),
)
def place_order(context: ToolContext, arguments: PlaceOrderInput) -> PlaceOrderOutput:
    """Pay the seats of a hold; money moves, and the fan cannot undo it.

    Use it only when the fan has clearly said that they want to buy what is held now. The fan is
    shown a button with the exact seats and price and must press it before anything happens, so
    do not ask for a second yes in words. It returns the order_id (the order number, which the fan
    should see), the seats, the total in BRL and the status paid.
    Without a live hold call hold_seats first; to ask about an order made earlier call
    get_order_status, and to give money back call refund_order.
    """
    made = order_pay(
        payment_key=context.idempotency_key, provider_id=context.receipt.get("provider_id", "")
    )
    order = order_of(order_id=made.pk, user_id=fan_id(context))
    return PlaceOrderOutput(
        order_id=order.id,
        event=order.event.title,
        starts_at=_start(context, order),
        seats=seats_out(order.seats),
        total_brl=brl(order.total_minor),
        status="paid",
    )


@tool("get_order_status", risk=Risk.READ, examples=({"order_id": EXAMPLE_ORDER},))
def get_order_status(context: ToolContext, arguments: GetOrderStatusInput) -> GetOrderStatusOutput:
    """Look up one order of this fan by its order number.

    Use it when the fan asks what became of an order or of a refund. It returns the status
    (pending while it is being paid, paid, refunded, or cancelled when no money was taken), the
    event, the seats, the total in BRL and the refunds with amount and reason.
    The error order_not_found means that this fan has no such order: ask for the number again and
    guess none. For seats that are held but not paid there is no order yet; use the hold_id of
    hold_seats with place_order or release_hold.
    """
    order = order_of(order_id=arguments.order_id, user_id=fan_id(context))
    return GetOrderStatusOutput(
        order_id=order.id,
        status=order.status,
        event=order.event.title,
        starts_at=_start(context, order),
        seats=seats_out(order.seats),
        total_brl=brl(order.total_minor),
        refunds=[
            RefundOut(
                id=refund.id,
                amount_brl=brl(refund.amount_minor),
                status=refund.status,
                reason=refund.reason,
            )
            for refund in order.refunds
        ],
    )


def _refund_preview(context: ToolContext, arguments: RefundOrderInput) -> JsonObject:
    order = order_of(order_id=arguments.order_id, user_id=fan_id(context))
    if order.status == OrderStatus.REFUNDED:
        raise AlreadyRefunded
    if order.status != OrderStatus.PAID:
        raise OrderNotFound  # no money was taken for it
    if any(refund.status == RefundStatus.PENDING for refund in order.refunds):
        raise RefundUnderWay
    with override(context.language):
        summary = ngettext(
            "Give %(total)s back for %(event)s and free %(count)d seat",
            "Give %(total)s back for %(event)s and free %(count)d seats",
            len(order.seats),
        ) % {
            "total": money(order.total_minor),
            "event": order.event.title,
            "count": len(order.seats),
        }
        undo = _("Irreversible: the seats go on sale again at once.")
        late = order.event.starts_at <= clock.now()
        warnings = [_("The event has begun already.")] if late else []
    shown: JsonObject = {
        "order": str(order.id),
        "event": order.event.title,
        "starts_at": _start(context, order),
    }
    return {
        "summary": summary,
        "before": {
            **shown,
            "status": order.status,
            "seats": seats_shown(order.seats, SOLD),
            "paid_brl": brl(order.total_minor),
            "refunded_brl": 0.0,
        },
        "after": {
            **shown,
            "status": OrderStatus.REFUNDED.value,
            "seats": seats_shown(order.seats, FREE),
            "paid_brl": brl(order.total_minor),
            "refunded_brl": brl(order.total_minor),
        },
        "warnings": warnings,
        "undo": undo,
    }


def _refund_begin(context: ToolContext, arguments: RefundOrderInput) -> JsonObject:
    refund = refund_begin(
        order_id=arguments.order_id,
        user_id=fan_id(context),
        reason=arguments.reason,
        refund_key=context.idempotency_key,
    )
    return {"amount_minor": refund.amount_minor, "charge": refund.order.payment.reference}


async def _give_back(key: str, request: JsonObject) -> JsonObject:
    receipt = await payment_provider().refund(
        key=key, charge_key=request["charge"], amount_minor=request["amount_minor"]
    )
    return _matched(key, request, receipt)


def _refund_off(context: ToolContext, arguments: RefundOrderInput) -> None:
    refund_fail(refund_key=context.idempotency_key)


@tool(
    "refund_order",
    risk=Risk.DESTRUCTIVE,
    gate=Gate.REVIEWER,
    preview=_refund_preview,
    remote=Remote(
        provider=lambda: payment_provider().name,
        begin=_refund_begin,
        send=_give_back,
        lookup=_money_moved,
        fail=_refund_off,
        is_idempotent=True,
    ),
    examples=({"order_id": EXAMPLE_ORDER, "reason": "Não posso ir, fiquei doente."},),
)
def refund_order(context: ToolContext, arguments: RefundOrderInput) -> RefundOrderOutput:
    """Give the money of a paid order back to this fan and free its seats.

    Use it when the fan asks for a refund of an order whose number is known and has said why; ask
    for what is missing first. A reviewer of the box office decides, which can take a while: tell
    the fan that the request was sent and never promise the outcome. It returns the refund_id, the
    amount in BRL and the status refunded.
    To give back seats that are held but not paid use release_hold; to see whether a refund was
    made already use get_order_status.
    """
    refund = refund_complete(refund_key=context.idempotency_key)
    return RefundOrderOutput(
        refund_id=refund.pk,
        order_id=refund.order_id,
        amount_brl=brl(refund.amount_minor),
        status="refunded",
    )

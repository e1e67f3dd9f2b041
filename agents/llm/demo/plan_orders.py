"""What follows a hold: buying, releasing, orders, refunds; and messages to people."""

from agents.llm.demo.conversation import Call
from agents.llm.demo.details import MOST_DETAIL, find_body, find_reason, find_subject, find_topic
from agents.llm.demo.intents import Intent
from agents.llm.demo.memory import match_events
from agents.llm.demo.phrases import status_name
from agents.llm.demo.situation import Reply, Situation
from agents.llm.demo.text import tokens
from agents.llm.wire import Json, ToolUseBlock

REFUNDABLE = ("paid", "confirmed", "partially_refunded")
_ALL = frozenset({"todas", "todos", "tudo", "all", "everything", "both", "ambas"})
_SUBJECT_WORDS = 8
MOST_SUBJECT = 150  # characters


def buy(now: Situation) -> Reply:
    """Buy the seats on hold."""
    call = now.made("place_order")
    if call is None:
        if not now.offers("place_order"):
            return now.cannot("place_order")
        hold = now.memory.live_hold
        if hold is None:
            return now.say("no_hold")
        return now.call("place_order", {"hold_id": hold["hold_id"]})
    if not call.has_succeeded:
        told = now.explain(call)
        is_lost = now.memory.lost_hold is not None and call.code.startswith("hold_")
        return f"{told}\n\n{now.say('hold_again')}" if is_lost else told
    result = call.result
    return _approval(now, call) + now.say(
        "paid",
        seats=now.seats(result.get("seats")),
        title=result.get("event", ""),
        when=now.when(result.get("starts_at")),
        total=now.money(result.get("total_brl")),
        order_id=result.get("order_id", ""),
    )


def release(now: Situation) -> Reply:
    """Give seats on hold back: the newest, or all when asked."""
    calls = [call for call in now.goal.calls if call.name == "release_hold"]
    if calls:
        failed = next((call for call in calls if not call.has_succeeded), None)
        return now.explain(failed) if failed else now.say("released")
    holds = list(now.memory.holds.values())
    if not holds:
        return now.say("no_hold")
    if not now.offers("release_hold"):
        return now.cannot("release_hold")
    wants_all = bool(_ALL & set(tokens(now.goal.said.folded)))
    named = [] if wants_all else _named(now, holds)
    chosen = holds if wants_all else (named or holds[-1:])
    return tuple(ToolUseBlock("release_hold", {"hold_id": hold["hold_id"]}) for hold in chosen)


def tell_holds(now: Situation) -> Reply:
    """Say what is on hold, from what the tools have told."""
    holds = list(now.memory.holds.values())
    if not holds:
        return now.say("no_hold")
    lines = [
        now.say(
            "my_hold",
            seats=now.seats(hold.get("seats")),
            title=hold.get("event", ""),
            when=now.when(hold.get("starts_at")),
            total=now.money(hold.get("total_brl")),
            time=now.clock(hold.get("expires_at")),
        )
        for hold in holds
    ]
    return "\n\n".join([*lines, now.say("buy")])


def take_no(now: Situation) -> Reply:
    """Answer a no: to the offer to buy, or to anything else."""
    hold = now.memory.live_hold
    if hold is None:
        return now.say("no")
    return now.say("no_hold_stays", time=now.clock(hold.get("expires_at")))


def tell_order(now: Situation) -> Reply:
    """Look an order up and tell how it stands."""
    call = now.made("get_order_status")
    if call is None and not now.offers("get_order_status"):
        return now.cannot("get_order_status")
    if call is None:
        order_id, question = _which_order(now, list(now.memory.orders.values()))
        if not order_id:
            return question
        return now.call("get_order_status", {"order_id": order_id})
    if not call.has_succeeded:
        return now.explain(call)
    result = call.result
    lines = [
        now.say(
            "order",
            title=result.get("event", ""),
            when=now.when(result.get("starts_at")),
            seats=now.seats(result.get("seats")),
            total=now.money(result.get("total_brl")),
            status=status_name(str(result.get("status", "")), now.language),
        )
    ]
    lines += [
        now.say(
            "order_refund",
            amount=now.money(refund.get("amount_brl")),
            status=status_name(str(refund.get("status", "")), now.language),
        )
        for refund in result.get("refunds") or []
    ]
    return "\n".join(lines)


def refund(now: Situation) -> Reply:
    """Ask for a refund of an order, with the fan's reason."""
    call = now.made("refund_order")
    if call is not None:
        if not call.has_succeeded:
            return now.explain(call)
        told = now.say("refunded", amount=now.money(call.result.get("amount_brl")))
        return _approval(now, call) + told
    if not now.offers("refund_order"):
        return now.cannot("refund_order")
    orders = list(now.memory.orders.values())
    open_orders = [order for order in orders if order.get("status") in REFUNDABLE]
    order_id, question = _which_order(now, open_orders or orders)
    if not order_id:
        return question
    reason = _stated_reason(now) or now.goal.answers.get("reason", "")[:MOST_DETAIL]
    if not reason:
        return now.say("reason")
    return now.call("refund_order", {"order_id": order_id, "reason": reason})


def send_email(now: Situation) -> Reply:
    """Send an e-mail once address and text are known."""
    call = now.made("send_email")
    if call is not None:
        if not call.has_succeeded:
            return now.explain(call)
        to = str(call.result.get("to") or call.arguments.get("to", ""))
        return _approval(now, call) + now.say("emailed", to=to)
    if not now.offers("send_email"):
        return now.cannot("send_email")
    goal = now.goal
    to = goal.said.email or goal.answers.get("email_to", "")
    if not to:
        return now.say("email_to")
    body = goal.answers.get("email_body") or find_body(goal.said.text) or _summary(now)
    if not body:
        return now.say("email_body")
    subject = find_subject(goal.said.text)[:MOST_SUBJECT] or now.say("email_subject")
    return now.call("send_email", {"to": to, "subject": subject, "body": body})


def open_ticket(now: Situation) -> Reply:
    """Hand a matter to the support team, in the fan's words."""
    call = now.made("create_ticket")
    if call is not None:
        return now.say("ticket_opened") if call.has_succeeded else now.explain(call)
    if not now.offers("create_ticket"):
        return now.cannot("create_ticket")
    goal = now.goal
    topic = goal.answers.get("ticket_body") or find_topic(goal.said.text)
    wants_person = "chamado" not in goal.said.folded and "ticket" not in goal.said.folded
    if not topic and not wants_person:
        return now.say("ticket_body")
    words = topic.split()
    short = " ".join(words[:_SUBJECT_WORDS]) + ("…" if len(words) > _SUBJECT_WORDS else "")
    subject = short[:MOST_SUBJECT] or now.say("ticket_subject")
    arguments = {"subject": subject, "body": topic or goal.said.text}
    return now.call("create_ticket", arguments)


def _which_order(now: Situation, orders: list[Json]) -> tuple[str, str]:
    """Return the id of the order meant, or "" and the question to ask."""
    goal = now.goal
    told = goal.answers.get("which_order")
    if told:
        return told, ""
    if goal.said.order_ids:
        return goal.said.order_ids[0], ""
    named = _named(now, orders)
    if len(named) == 1 or len(orders) == 1:
        return str((named or orders)[0]["order_id"]), ""
    if not orders:
        return "", now.say("which_order")
    if goal.intent is Intent.ORDER:
        return str(orders[-1]["order_id"]), ""
    lines = [f"- **{order.get('event', '')}**: `{order['order_id']}`" for order in orders]
    listed = "\n".join([now.say("orders_several"), "", *lines])
    return "", f"{listed}\n\n{now.say('which_order')}"


def _named(now: Situation, items: list[Json]) -> list[Json]:
    """Return those orders or holds whose event the fan names."""
    titled = [{**item, "title": item.get("event")} for item in items]
    named = match_events(now.goal.said.folded, titled)
    return [item for item, titled_item in zip(items, titled, strict=True) if titled_item in named]


def _summary(now: Situation) -> str:
    """Return the details of the last order or hold, when the fan wants these sent."""
    said = set(tokens(now.goal.said.folded))
    wanted = {"detalhes", "resumo", "pedido", "reserva", "compra", "ingressos", "dados",
              "details", "summary", "order", "hold", "purchase", "tickets"}  # fmt: skip
    items = [*now.memory.holds.values(), *now.memory.orders.values()]
    if not items or not said & wanted:
        return ""
    item = items[-1]
    parts = [
        str(item.get("event", "")),
        now.when(item.get("starts_at")),
        now.seats(item.get("seats")),
        now.money(item.get("total_brl")),
    ]
    return "\n".join(part for part in parts if part)


def _approval(now: Situation, call: Call) -> str:
    decision = call.result.get("decision")
    is_team = isinstance(decision, dict) and decision.get("approved_by") == "reviewer"
    return now.say("approved_by_team") if is_team else ""


def _stated_reason(now: Situation) -> str:
    return next(filter(None, map(find_reason, now.goal.messages)), "")

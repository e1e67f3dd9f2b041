"""The next message of the demo model: calls to make, or a text."""

from collections.abc import Callable, Mapping
from typing import Any

from agents.llm.demo import plan_orders, plan_seats
from agents.llm.demo.conversation import read_conversation
from agents.llm.demo.hearing import recall
from agents.llm.demo.intents import Intent
from agents.llm.demo.situation import Reply, Situation
from agents.llm.wire import Block, TextBlock

_PLANS: dict[Intent, Callable[[Situation], Reply]] = {
    Intent.EVENTS: plan_seats.find_events,
    Intent.SEATS: plan_seats.find_seats,
    Intent.HOLD: plan_seats.find_seats,
    Intent.MY_HOLDS: plan_orders.tell_holds,
    Intent.RELEASE: plan_orders.release,
    Intent.BUY: plan_orders.buy,
    Intent.ORDER: plan_orders.tell_order,
    Intent.REFUND: plan_orders.refund,
    Intent.EMAIL: plan_orders.send_email,
    Intent.TICKET: plan_orders.open_ticket,
    Intent.YES: lambda now: now.say("yes_to_what"),
    Intent.NO: plan_orders.take_no,
}


def reply_blocks(body: Mapping[str, Any]) -> list[Block]:
    """Return the content of the assistant's next message to a valid request."""
    conversation = read_conversation(body)
    now = Situation(conversation, recall(conversation))
    plan = _PLANS.get(now.goal.intent, _small_talk)
    reply = plan_seats.ask_again(now) if now.memory.beyond_list else plan(now)
    if reply == now.say("stopped"):
        reply = plan_seats.stop_early(now)
    return [TextBlock(reply)] if isinstance(reply, str) else list(reply)


def _small_talk(now: Situation) -> str:
    return now.say(now.goal.intent.value)

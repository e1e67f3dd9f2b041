"""What the conversation has come to: the goal of the fan, and what the tools have told.

Rebuilt from the request each time, message by message; nothing is kept between requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from agents.llm.demo.conversation import Call, Turn
from agents.llm.demo.details import title_words
from agents.llm.demo.intents import SMALL_TALK, Intent, Said
from agents.llm.demo.phrases import open_question
from agents.llm.demo.slots import Slots
from agents.llm.demo.text import tokens
from agents.llm.wire import Json

SEARCHES = (Intent.EVENTS, Intent.SEATS, Intent.HOLD)
_COMPLETED_BY = {
    Intent.HOLD: "hold_seats",
    Intent.SEATS: "hold_seats",
    Intent.RELEASE: "release_hold",
    Intent.BUY: "place_order",
    Intent.ORDER: "get_order_status",
    Intent.REFUND: "refund_order",
    Intent.EMAIL: "send_email",
    Intent.TICKET: "create_ticket",
}


@dataclass(slots=True, kw_only=True)
class Goal:
    """One wish, from the message that states it until it is met or another takes its place.

    `event` is set when the fan chose it, `option` (from 0) when they chose among seats shown.
    `answers` are the replies to questions, by the question's key.
    """

    intent: Intent
    said: Said
    slots: Slots
    event: Json | None = None
    option: Json | None = None
    calls: list[Call] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    is_done: bool = False

    @property
    def messages(self) -> list[str]:
        return [self.said.text, *self.answers.values()]


@dataclass(slots=True)
class Memory:
    """The state after all messages of a conversation."""

    today: date
    goal: Goal
    events: list[Json] = field(default_factory=list)
    seen_events: dict[str, Json] = field(default_factory=dict)
    options: list[Json] = field(default_factory=list)
    options_event: Json = field(default_factory=dict)
    listing: str = ""
    holds: dict[str, Json] = field(default_factory=dict)
    orders: dict[str, Json] = field(default_factory=dict)
    lost_hold: Json | None = None
    question: str = ""
    turn_calls: list[Call] = field(default_factory=list)
    last_calls: list[Call] = field(default_factory=list)
    is_answered: bool = True
    beyond_list: bool = False

    def waiting(self, tool: str, arguments: Mapping[str, Any]) -> Call | None:
        """Return the last such call if it still waits for a human."""
        for call in reversed(self.last_calls):
            if call.name == tool and call.arguments == dict(arguments):
                return call if call.is_pending else None
        return None

    @property
    def live_hold(self) -> Json | None:
        """The newest hold that was neither released nor bought, as far as the model was told."""
        return next(reversed(self.holds.values()), None)

    def event_of(self, event_id: object) -> Json:
        return self.seen_events.get(str(event_id), {})


def match_events(folded: str, events: Sequence[Json]) -> list[Json]:
    """Return the events whose title the text names best; empty when it names none."""
    said = set(tokens(folded))
    scored = [(_score(event, said), event) for event in events]
    best = max((score for score, _ in scored), default=0.0)
    return [event for score, event in scored if best and score == best]


def _score(event: Json, said: set[str]) -> float:
    names = title_words(str(event.get("title", "")))
    hits = sum(name in said for name in names if len(name) > 2)
    return hits / len(names) if names else 0.0


def look_at(memory: Memory, turn: Turn) -> None:
    """Take in what the tools told in a turn, and what the model said to it."""
    for call in turn.calls:
        memory.turn_calls.append(call)
        memory.last_calls.append(call)
        memory.goal.calls.append(call)
        _learn(memory, call)
        if call.has_succeeded and _COMPLETED_BY.get(memory.goal.intent) == call.name:
            memory.goal.is_done = True
    waits = bool(turn.calls) and turn.calls[-1].is_pending
    memory.is_answered = bool(turn.reply) or waits or not turn.calls
    if turn.reply:
        memory.question = open_question(turn.reply)
        if turn.calls:
            memory.listing = _listing(turn.calls)
        elif memory.goal.intent not in SMALL_TALK and not memory.question:
            memory.listing = ""


def _listing(calls: Sequence[Call]) -> str:
    last = calls[-1]
    if not last.has_succeeded:
        return ""
    if last.name == "search_seats" and last.result.get("options"):
        return "options"
    return "events" if last.name == "search_events" and last.result.get("events") else ""


def _learn(memory: Memory, call: Call) -> None:
    result = call.result
    if call.name in ("place_order", "hold_seats", "release_hold") and not call.has_succeeded:
        if call.code in ("hold_expired", "hold_not_active", "hold_not_found"):
            memory.lost_hold = memory.holds.pop(str(call.arguments.get("hold_id")), None)
        return
    if not call.has_succeeded:
        return
    if call.name == "search_events":
        memory.events = [event for event in result.get("events") or [] if event.get("id")]
        memory.seen_events |= {str(event["id"]): event for event in memory.events}
    elif call.name == "search_seats":
        memory.options = list(result.get("options") or [])
        memory.options_event = _event_in(memory, result)
    elif call.name == "hold_seats" and result.get("hold_id"):
        memory.holds[str(result["hold_id"])] = result
    elif call.name == "release_hold":
        memory.holds.pop(str(call.arguments.get("hold_id")), None)
    elif call.name == "place_order" and result.get("order_id"):
        memory.holds.pop(str(call.arguments.get("hold_id")), None)
        memory.orders[str(result["order_id"])] = result
    elif call.name == "get_order_status" and result.get("order_id"):
        memory.orders[str(result["order_id"])] = result
    elif call.name == "refund_order" and result.get("order_id"):
        order = memory.orders.setdefault(str(result["order_id"]), {"order_id": result["order_id"]})
        memory.orders[str(result["order_id"])] = {**order, "status": "refunded"}


def _event_in(memory: Memory, result: Json) -> Json:
    known = memory.event_of(result.get("event_id"))
    told = {
        "id": result.get("event_id"),
        "title": result.get("event"),
        "starts_at": result.get("starts_at"),
    }
    return {**told, **known}

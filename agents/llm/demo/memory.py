"""What the conversation has come to: the goal of the fan, and what the tools have told.

Rebuilt from the request each time, message by message; nothing is kept between requests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from agents.llm.demo.conversation import Call, Conversation, Turn
from agents.llm.demo.details import title_words
from agents.llm.demo.intents import SMALL_TALK, Intent, Said, understand
from agents.llm.demo.phrases import open_question
from agents.llm.demo.slots import Slots
from agents.llm.demo.text import tokens
from agents.llm.wire import Json

SEARCHES = (Intent.EVENTS, Intent.SEATS, Intent.HOLD)
_THIS_ONE = frozenset(
    [
        "esse",
        "essa",
        "este",
        "esta",
        "desse",
        "dessa",
        "deste",
        "desta",
        "nele",
        "nela",
        "ele",
        "isso",
        "it",
        "this",
    ]
)
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
    missing_item: int = 0
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


def recall(conversation: Conversation) -> Memory:
    """Go through the conversation and return what it has come to."""
    first = understand("", conversation.today)
    memory = Memory(conversation.today, Goal(intent=Intent.GREET, said=first, slots=Slots()))
    for turn in conversation.turns:
        _hear(memory, understand(turn.text, conversation.today))
        _look_at(memory, turn)
    return memory


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


# Hearing


def _hear(memory: Memory, said: Said) -> None:
    question, memory.question = memory.question, ""
    if not memory.is_answered and _may_pass(said):
        return  # said in the middle of the work, which goes on
    memory.turn_calls = []
    if question and _answers(memory, question, said):
        return
    if _chooses(memory, said):
        return
    goal = memory.goal
    intent = said.intent
    if intent in (Intent.EVENTS, Intent.SEATS, Intent.HOLD):
        _hear_search(memory, said)
    elif intent is Intent.BUY and _wants_other_seats(memory, said):
        _hear_search(memory, replace(said, intent=Intent.HOLD))
    elif intent is Intent.UNKNOWN and goal.intent in SEARCHES and _names_event(memory, said):
        _hear_search(memory, replace(said, intent=Intent.SEATS))
    else:
        memory.goal = Goal(intent=intent, said=said, slots=said.slots)


def _may_pass(said: Said) -> bool:
    if said.intent in (Intent.NO, Intent.NEVER_MIND):
        return False
    return said.intent in SMALL_TALK or said.intent in (Intent.YES, Intent.UNKNOWN)


def _answers(memory: Memory, question: str, said: Said) -> bool:
    """Take the message as the answer to the question before it, if it can be one."""
    if said.intent is Intent.NEVER_MIND:
        return False
    if question == "quantity":
        return _answer_quantity(memory, said)
    if question == "buy":
        return _answer_buy(memory, said)
    if question == "hold_again" and said.intent is Intent.YES and memory.lost_hold:
        memory.goal = _hold_again(memory, memory.lost_hold, said)
        return True
    if question in ("which_event", "which_option"):
        return _answer_choice(memory, question, said)
    if question == "which_order" and said.order_ids:
        return _take_answer(memory, question, said.order_ids[0])
    if question == "email_to" and said.email:
        return _take_answer(memory, question, said.email)
    if question in ("reason", "email_body", "ticket_body"):
        if said.intent in (Intent.NO, Intent.RELEASE) and len(tokens(said.folded)) < 4:
            return False
        return _take_answer(memory, question, said.text)
    return False


def _take_answer(memory: Memory, question: str, answer: str) -> bool:
    memory.goal.answers[question] = answer
    return True


def _answer_quantity(memory: Memory, said: Said) -> bool:
    quantity = said.slots.quantity or said.number
    if not quantity or memory.goal.intent not in SEARCHES:
        return False
    if said.intent is Intent.HOLD:
        memory.goal.intent = Intent.HOLD
    newer = replace(said.slots, quantity=quantity, query="")
    memory.goal.slots = memory.goal.slots.merged(newer)
    return True


def _answer_buy(memory: Memory, said: Said) -> bool:
    if said.intent is Intent.YES:
        memory.goal = Goal(intent=Intent.BUY, said=said, slots=Slots())
        return True
    return False


def _answer_choice(memory: Memory, question: str, said: Said) -> bool:
    number = said.ordinal or said.number
    if said.intent is Intent.YES and not number:
        number = 1
    if number:
        return _choose(memory, number, said)
    if question == "which_event":
        if said.slots.takes_any:
            memory.goal.slots = memory.goal.slots.merged(Slots(takes_any=True))
            return True
        return _choose_by_title(memory, said)
    return False


def _hold_again(memory: Memory, hold: Json, said: Said) -> Goal:
    event = memory.event_of(hold.get("event_id")) or {
        "id": hold.get("event_id"),
        "title": hold.get("event"),
        "starts_at": hold.get("starts_at"),
    }
    slots = Slots(quantity=len(hold.get("seats") or []) or None)
    return Goal(intent=Intent.HOLD, said=said, slots=slots, event=event)


def _chooses(memory: Memory, said: Said) -> bool:
    """Take "a segunda opção" as a choice from what was listed last."""
    is_choice = said.ordinal is not None or (
        said.intent is Intent.HOLD and memory.listing == "options" and not _restates(said)
    )
    if not is_choice or not memory.listing or said.intent in (Intent.REFUND, Intent.ORDER):
        return False
    return _choose(memory, said.ordinal or 1, said)


def _restates(said: Said) -> bool:
    return said.slots.has_filter or said.slots.quantity is not None


def _choose(memory: Memory, number: int, said: Said) -> bool:
    items = memory.options if memory.listing == "options" else memory.events
    if not items:
        return False
    index = number - 1 if number > 0 else len(items) - 1
    if index >= len(items):
        memory.goal.missing_item = len(items)
        return True
    if memory.listing == "options":
        memory.goal = Goal(
            intent=Intent.HOLD,
            said=said,
            slots=memory.goal.slots,
            event=memory.options_event,
            option=items[index],
        )
    else:
        _choose_event(memory, items[index], said)
    return True


def _choose_by_title(memory: Memory, said: Said) -> bool:
    named = match_events(said.folded, memory.events)
    if said.slots.dates and not named:
        return False
    if len(named) != 1:
        return False
    _choose_event(memory, named[0], said)
    return True


def _choose_event(memory: Memory, event: Json, said: Said) -> None:
    old = memory.goal
    wants_hold = Intent.HOLD in (said.intent, old.intent)
    slots = old.slots.merged(replace(said.slots, query="", dates=None, city=""))
    memory.goal = Goal(
        intent=Intent.HOLD if wants_hold else Intent.SEATS,
        said=said,
        slots=slots,
        event=event,
        calls=old.calls,
    )


def _hear_search(memory: Memory, said: Said) -> None:
    old = memory.goal
    is_open = old.intent in SEARCHES and not old.is_done
    slots = said.slots
    if is_open and (said.is_fragment or said.intent is not Intent.EVENTS):
        slots = old.slots.merged(said.slots)
    intent = said.intent
    if is_open and said.is_fragment and old.intent is not Intent.EVENTS:
        intent = old.intent
    memory.goal = Goal(
        intent=intent,
        said=said,
        slots=slots,
        event=None if said.intent is Intent.EVENTS and not said.is_fragment
        else _event_meant(memory, said, old if is_open else None),
        calls=old.calls if is_open else [],
    )  # fmt: skip


def _event_meant(memory: Memory, said: Said, old: Goal | None) -> Json | None:
    """Return the known event that a search for seats speaks of, or None to search for one."""
    named = match_events(said.folded, memory.events)
    dates = said.slots.dates
    if dates and dates.first:
        days = [str(event.get("starts_at", ""))[:10] for event in named]
        named = [
            event
            for event, day in zip(named, days, strict=True)
            if dates.first.isoformat() <= day <= (dates.last or dates.first).isoformat()
        ]
    if len(named) == 1 and said.intent is not Intent.EVENTS:
        return named[0]
    if said.slots.query or dates or said.slots.city:
        return None
    if old is not None and old.event is not None:
        return old.event
    if len(memory.events) == 1 and memory.listing == "events":
        return memory.events[0]
    if _THIS_ONE & set(tokens(said.folded)) and memory.options_event:
        return memory.options_event
    return None


def _wants_other_seats(memory: Memory, said: Said) -> bool:
    """Tell "quero comprar dois ingressos para Hamlet" from "pode comprar"."""
    slots = said.slots
    hold = memory.live_hold
    if hold is None:
        return slots.has_filter or slots.quantity is not None or bool(memory.listing)
    held = {"title": hold.get("event")}
    return bool(slots.query) and bool(slots.quantity) and not match_events(said.folded, [held])


def _names_event(memory: Memory, said: Said) -> bool:
    return len(match_events(said.folded, memory.events)) == 1


# Looking at what the tools said


def _look_at(memory: Memory, turn: Turn) -> None:
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

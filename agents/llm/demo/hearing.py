"""Taking the fan's messages in: which wish a message states, changes or answers."""

from dataclasses import replace

from agents.llm.demo.conversation import Conversation
from agents.llm.demo.details import picked_seats
from agents.llm.demo.intents import SMALL_TALK, Intent, Said, understand
from agents.llm.demo.memory import SEARCHES, Goal, Memory, look_at, match_events
from agents.llm.demo.slots import Slots
from agents.llm.demo.text import tokens
from agents.llm.wire import Json

_THIS_ONE = frozenset(
    {"esse", "essa", "este", "esta", "desse", "dessa", "deste", "desta", "nele", "nela", "ele",
     "isso", "it", "this"}
)  # fmt: skip


def recall(conversation: Conversation) -> Memory:
    """Go through the conversation and return what it has come to."""
    first = understand("", conversation.today)
    memory = Memory(conversation.today, Goal(intent=Intent.GREET, said=first, slots=Slots()))
    for turn in conversation.turns:
        _hear(memory, understand(turn.text, conversation.today))
        look_at(memory, turn)
    return memory


def _hear(memory: Memory, said: Said) -> None:
    question, memory.question = memory.question, ""
    picked = picked_seats(said.text)
    if picked is not None:
        memory.turn_calls, memory.beyond_list = [], False
        memory.goal = _take_picked(memory, said, *picked)
        return
    if not memory.is_answered and _may_pass(said):
        return  # said in the middle of the work, which goes on
    memory.turn_calls = []
    memory.beyond_list = False
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


def _take_picked(memory: Memory, said: Said, event_id: str, seat_ids: list[str]) -> Goal:
    event = memory.event_of(event_id) or {"id": event_id}
    slots = Slots(quantity=len(seat_ids))
    option = {"seat_ids": seat_ids}
    return Goal(intent=Intent.HOLD, said=said, slots=slots, event=event, option=option)


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
    if said.number and not is_choice:
        return _choose_number(memory, said.number, said)
    if not is_choice or not memory.listing or said.intent in (Intent.REFUND, Intent.ORDER):
        return False
    return _choose(memory, said.ordinal or 1, said)


def _choose_number(memory: Memory, number: int, said: Said) -> bool:
    """A number alone picks from the list; after one single event it says how many seats."""
    if memory.listing == "events" and len(memory.events) == 1:
        quantity = replace(said.slots, quantity=number, query="")
        _choose_event(memory, memory.events[0], replace(said, slots=quantity))
        return True
    return bool(memory.listing) and _choose(memory, number, said)


def _restates(said: Said) -> bool:
    return said.slots.has_filter or said.slots.quantity is not None


def _choose(memory: Memory, number: int, said: Said) -> bool:
    items = memory.options if memory.listing == "options" else memory.events
    if not items:
        return False
    index = number - 1 if number > 0 else len(items) - 1
    if index >= len(items):
        memory.beyond_list = True
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

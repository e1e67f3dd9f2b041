"""Finding events and seats, and holding seats."""

from collections.abc import Iterator, Sequence

from agents.llm.demo import render, words
from agents.llm.demo.conversation import Call
from agents.llm.demo.intents import Intent
from agents.llm.demo.memory import match_events
from agents.llm.demo.situation import Reply, Situation
from agents.llm.demo.slots import Slots, as_number
from agents.llm.demo.text import fold
from agents.llm.wire import Json

TRIED_EVENTS = 3  # how many events are looked into before saying that no seats fit
DECISIVE_DAYS = 3  # a wish for so few days takes the first event that fits


def find_events(now: Situation) -> Reply:
    """Search events by what was said and list them."""
    found = _search(now)
    if not isinstance(found, Call):
        return found
    events = _events(found)
    slots = now.goal.slots
    if not events:
        return now.say("events_none", filters=render.filters(slots, now.language))
    ending = "events_next_one" if len(events) == 1 else "events_next"
    return _list_events(now, found, now.say(ending))


def find_seats(now: Situation) -> Reply:
    """Find seats for the event meant; hold them if that was asked."""
    goal = now.goal
    if goal.option is not None and not _held(now):
        return _hold(now, goal.event or {}, goal.option)
    if _held(now):
        return _after_hold(now, _held(now)[-1])
    candidates = _candidates(now)
    if not isinstance(candidates, list):
        return candidates
    quantity = goal.slots.quantity
    if quantity is None:
        return _ask_quantity(now, candidates)
    limit = now.limit("search_seats", "quantity")
    if limit is not None and quantity > limit:
        return now.say("too_many", limit=limit)
    return _seats_in(now, candidates, quantity)


def ask_again(now: Situation) -> str:
    """Answer a choice that the list does not have."""
    is_options = now.memory.listing == "options"
    count = len(now.memory.options if is_options else now.memory.events)
    question = now.say("which_option" if is_options else "which_event")
    return f"{now.say('no_such_item', count=count)} {question}"


def stop_early(now: Situation) -> str:
    """Answer with what is known when no further call may be made."""
    told = now.say("stopped")
    call = now.memory.turn_calls[-1]
    if call.name == "search_seats" and call.result.get("options"):
        options = call.result["options"]
        listed = render.option_list(options, len(options[0].get("seat_ids") or []), now.language)
    elif call.name == "search_events" and _events(call):
        events = _events(call)
        listed = render.event_list(events, len(events), now.conversation.zone, now.language)
    else:
        return told
    return f"{told} {now.say('found_so_far')}\n\n{listed}"


# Events


def _search(now: Situation) -> Call | Reply:
    """Return the search that answers the wish; or the call to make, or what went wrong."""
    first: Call | None = None
    for arguments in _searches(now):
        call = now.made("search_events", arguments)
        if call is None and first is not None and not now.offers("search_events"):
            break
        if call is None:
            return now.call("search_events", arguments)
        if not call.has_succeeded:
            return now.explain(call)
        if _events(call):
            return call
        first = first or call
    return first or now.cannot("search_events")


def _searches(now: Situation) -> Iterator[Json]:
    """Yield what to search for, from the exact wish to what else there is on those terms."""
    arguments = now.goal.slots.search_arguments()
    yield arguments
    if "query" not in arguments:
        return
    other = words.GENRES.get(fold(str(arguments["query"])))
    if other:
        yield {**arguments, "query": other}
    wider = {key: value for key, value in arguments.items() if key != "query"}
    if wider or not now.goal.said.is_fragment:
        yield wider


def _events(call: Call) -> list[Json]:
    return [event for event in call.result.get("events") or [] if event.get("id")]


def _list_events(now: Situation, call: Call, ending: str) -> str:
    slots = now.goal.slots
    events = _events(call)
    total = call.result.get("total")
    total = total if isinstance(total, int) else len(events)
    if slots.query and "query" not in call.arguments:
        others = Slots(
            quantity=slots.quantity,
            max_price=slots.max_price,
            dates=slots.dates,
            city=slots.city,
        )
        head = now.say(
            "events_relaxed", query=slots.query, filters=render.filters(others, now.language)
        )
    else:
        key = "events_one" if total == 1 else "events_many"
        head = now.say(key, total=total, filters=render.filters(slots, now.language))
    listed = render.event_list(events, total, now.conversation.zone, now.language)
    return f"{head}\n\n{listed}\n\n{ending}"


def _candidates(now: Situation) -> list[Json] | Reply:
    """Return the events to look into, best first; or what to do or ask before that."""
    goal = now.goal
    if goal.event is not None:
        return [goal.event]
    found = _search(now)
    if not isinstance(found, Call):
        return found
    events = _events(found)
    slots = goal.slots
    shown = render.filters(slots, now.language)
    if not events:
        return now.say("events_none", filters=shown)
    if slots.query and "query" not in found.arguments:
        return _list_events(now, found, now.say("which_event"))
    needed = slots.quantity or 1
    with_room = [event for event in events if _has_room(event, needed)]
    if not with_room:
        return now.say("events_full", filters=shown, quantity=needed)
    if slots.takes_any:
        return sorted(with_room, key=_lowest_price)
    if len(with_room) > 1 and not _is_decided(now, with_room):
        return _list_events(now, found, now.say("which_event"))
    named = match_events(goal.said.folded, with_room)
    return named + [event for event in with_room if event not in named]


def _has_room(event: Json, needed: int) -> bool:
    free = event.get("seats_free")
    return not isinstance(free, int) or free >= needed


def _lowest_price(event: Json) -> float:
    amount = render.decimal(event.get("price_from_brl"))
    return float(amount) if amount is not None else float("inf")


def _is_decided(now: Situation, events: Sequence[Json]) -> bool:
    """Tell whether the wish is narrow enough to take the first event that fits."""
    dates = now.goal.slots.dates
    if dates and dates.days is not None and dates.days <= DECISIVE_DAYS:
        return True
    return len(match_events(now.goal.said.folded, events)) == 1


# Seats


def _ask_quantity(now: Situation, candidates: Sequence[Json]) -> str:
    question = now.say("quantity")
    event = candidates[0]
    if not event.get("venue"):
        return question
    line = render.event_line(event, now.conversation.zone, now.language, key="event_chosen")
    return f"{line}\n\n{question}"


def _seats_in(now: Situation, candidates: Sequence[Json], quantity: int) -> Reply:
    """Look into the events in turn until one has seats that fit."""
    for event in candidates[:TRIED_EVENTS]:
        arguments = _seat_arguments(now, event, quantity)
        call = _search_of_now(now, arguments)
        if call is None:
            return now.call("search_seats", arguments)
        if not call.has_succeeded:
            return now.explain(call)
        options = _untaken(now, call.result.get("options") or [])
        if options:
            return _offer(now, event, options)
    return _no_seats(now, candidates[0], quantity)


def _seat_arguments(now: Situation, event: Json, quantity: int) -> Json:
    slots = now.goal.slots
    arguments: Json = {"event_id": event["id"], "quantity": quantity}
    if slots.seat_price is not None:
        arguments["max_price_brl"] = as_number(slots.seat_price)
    if quantity > 1:
        arguments["adjacent"] = not slots.sits_apart
    return arguments


def _search_of_now(now: Situation, arguments: Json) -> Call | None:
    """Return that seat search if it was made since the fan spoke and since seats were lost."""
    for call in reversed(now.memory.turn_calls):
        if call.name == "hold_seats":
            return None
        if call.name == "search_seats" and call.arguments == arguments:
            return call
    return None


def _untaken(now: Situation, options: Sequence[Json]) -> list[Json]:
    lost: set[str] = set()
    for call in now.goal.calls:
        if call.name == "hold_seats" and call.error:
            lost |= {str(seat) for seat in call.arguments.get("seat_ids") or []}
    return [
        option
        for option in options
        if option.get("seat_ids") and not lost & {str(seat) for seat in option["seat_ids"]}
    ]


def _offer(now: Situation, event: Json, options: Sequence[Json]) -> Reply:
    """Hold the cheapest option if that was asked, else list all."""
    if now.goal.intent is Intent.HOLD and now.offers("hold_seats"):
        return _hold(now, event, options[0])
    quantity = len(options[0]["seat_ids"])
    head = now.say("options", title=event.get("title", ""), when=now.when(event.get("starts_at")))
    listed = render.option_list(options, quantity, now.language)
    ending = now.say("which_option") if now.offers("hold_seats") else now.cannot("hold_seats")
    return f"{head}\n\n{listed}\n\n{ending}"


def _no_seats(now: Situation, event: Json, quantity: int) -> str:
    if now.made_now("hold_seats"):
        return now.say("taken")
    slots = now.goal.slots
    price = ""
    if slots.seat_price is not None:
        price = (" up to " if now.language == "en" else " até ") + now.money(slots.seat_price)
    key = "options_none" if quantity > 1 and not slots.sits_apart else "options_none_apart"
    seats = render.seat_count(quantity, now.language)
    return now.say(key, seats=seats, price=price, title=event.get("title", ""))


# Holding


def _hold(now: Situation, event: Json, option: Json) -> Reply:
    arguments = {"event_id": event.get("id"), "seat_ids": list(option["seat_ids"])}
    return now.call("hold_seats", arguments)


def _held(now: Situation) -> list[Call]:
    """Return the tries to hold seats since the wish was stated, the lost first ones included."""
    return [call for call in now.goal.calls if call.name == "hold_seats"]


def _after_hold(now: Situation, call: Call) -> Reply:
    if call.has_succeeded and call.result.get("hold_id"):
        return _tell_hold(now, call)
    are_lost = any(word in call.code for word in ("taken", "unavailable", "sold"))
    if not are_lost:
        return now.explain(call)
    if len(_held(now)) > 1:
        return now.say("taken")
    return _try_next(now, call)


def _try_next(now: Situation, lost: Call) -> Reply:
    """The seats went to somebody else: look once more and take the next option."""
    event = now.memory.event_of(lost.arguments.get("event_id")) or now.goal.event or {}
    event = {**event, "id": lost.arguments.get("event_id")}
    quantity = now.goal.slots.quantity or len(lost.arguments.get("seat_ids") or [])
    now.goal.intent = Intent.HOLD
    return _seats_in(now, [event], quantity)


def _tell_hold(now: Situation, call: Call) -> str:
    result = call.result
    is_second = len(_held(now)) > 1
    told = now.say(
        "held",
        seats=now.seats(result.get("seats")),
        title=result.get("event", ""),
        when=now.when(result.get("starts_at")),
        total=now.money(result.get("total_brl")),
        time=now.clock(result.get("expires_at")),
    )
    return (now.say("held_other") if is_second else "") + f"{told}\n\n{now.say('buy')}"

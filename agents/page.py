"""The sentences that the chat page's script shows, in the language of the request."""

from django.utils.translation import gettext as _


def page_strings() -> dict[str, str]:
    """By name; ``{…}`` is filled in by the page."""
    return _talk() | _connection() | _steps() | _cards() | _approvals()


def _talk() -> dict[str, str]:
    return {
        "you": _("You"),
        "fan": _("Fan"),
        "assistant": _("Assistant"),
        "human": _("Box office"),
        "sending": _("sending…"),
        "not_sent": _("not sent"),
        "try_again": _("Try again"),
        "thinking": _("thinking…"),
        "queued": _("waiting for a turn…"),
        "in_line": _("Many people are asking just now. You are in line, and next in a moment…"),
        "stopping": _("stopping…"),
        "stopped": _("You stopped this answer."),
        "undo_seats": _("Give these seats back"),
        "undo_all": _("Undo what this answer did"),
        "undo_due": _("taking back what this answer did…"),
        "undo_undone": _("What this answer had reserved was given back."),
        "undo_stuck": _(
            "What this answer did could not be taken back yet. Somebody is looking at it."
        ),
        "handoff": _("A person of the box office will go on from here."),
        "characters_left": _("{count} characters left"),
        "too_long": _("{count} characters too many"),
        "answer_ready": _("The answer is complete."),
    }


def _connection() -> dict[str, str]:
    return {
        "connecting": _("Connecting…"),
        "reconnecting": _("The connection was lost. Trying again in {seconds} s…"),
        "offline": _("You are offline. What you write is sent when you are back."),
        "stream_away": _("Live updates are away for the moment. Your messages are still saved."),
        "not_yours": _("This conversation is not available to you. Sign in again or start anew."),
        "retry_now": _("Try now"),
        "start_failed": _("That could not be sent. Check the connection and try again."),
    }


def _steps() -> dict[str, str]:
    return {
        "search_events.doing": _("looking for events…"),
        "search_events.done": _("looked for events"),
        "search_seats.doing": _("looking for seats…"),
        "search_seats.done": _("looked for seats"),
        "hold_seats.doing": _("holding the seats…"),
        "hold_seats.done": _("held the seats"),
        "release_hold.doing": _("giving the seats back…"),
        "release_hold.done": _("gave the seats back"),
        "place_order.doing": _("buying the tickets…"),
        "place_order.done": _("bought the tickets"),
        "get_order_status.doing": _("looking the order up…"),
        "get_order_status.done": _("looked the order up"),
        "refund_order.doing": _("refunding the order…"),
        "refund_order.done": _("refunded the order"),
        "send_email.doing": _("writing the e-mail…"),
        "send_email.done": _("put the e-mail on its way"),
        "create_ticket.doing": _("opening a ticket…"),
        "create_ticket.done": _("opened a ticket"),
        "search_web.doing": _("searching the web…"),
        "search_web.done": _("searched the web"),
        "other.doing": _("using {tool}…"),
        "other.done": _("used {tool}"),
        "step_failed": _("did not work"),
        "step_denied": _("not allowed"),
        "step_unknown": _("outcome unknown, somebody is looking at it"),
        "step_compensated": _("undone"),
        "details": _("Details"),
    }


def _cards() -> dict[str, str]:
    return {
        "events": _("Events"),
        "whats_on": _("What is on"),
        "no_events": _("Nothing was found."),
        "more_events": _("and {count} more"),
        "from_price": _("from {price}"),
        "seats_free": _("{count} seats free"),
        "sold_out": _("sold out"),
        "show_seats": _("See seats"),
        "ask_seats": _("I would like 2 seats for {event} on {day}"),
        "seat_map": _("Seat map"),
        "options": _("Seat options"),
        "option": _("Option {number}"),
        "no_options": _("No seats fit that."),
        "side_by_side": _("side by side"),
        "apart": _("not side by side"),
        "choose": _("Choose"),
        "ask_option": _("I want option {number}, please hold it"),
        "row": _("row {row}"),
        "seat": _("seat {number}"),
        "held": _("Held for you"),
        "held_until": _("Time left"),
        "hold_expired": _("This hold has expired"),
        "hold_released": _("These seats were given back"),
        "hold_bought": _("These seats are yours"),
        "buy": _("Buy"),
        "ask_buy": _("Go ahead and buy them"),
        "release": _("Give back"),
        "ask_release": _("Release the seats"),
        "total": _("Total"),
        "order": _("Your order"),
        "order_paid": _("Paid"),
        "order_pending": _("Being paid"),
        "order_cancelled": _("Not paid"),
        "order_refunded": _("Refunded"),
        "order_number": _("Order number"),
        "refunded_amount": _("{amount} refunded"),
        "ticket_opened": _("Ticket opened"),
        "email_queued": _("E-mail to {to} is on its way"),
        "map_stage": _("Stage"),
        "map_loading": _("Loading the map…"),
        "map_failed": _("The map could not be loaded."),
        "map_free": _("free"),
        "map_taken": _("taken"),
        "map_picked": _("picked"),
        "map_hint": _("Tap up to {count} seats."),
        "map_ask": _("Ask for these seats"),
        "map_message": _("Please hold these seats for {event}: {seats}"),
        "close": _("Close"),
    }


def _approvals() -> dict[str, str]:
    return {
        "confirm_title": _("Please confirm"),
        "confirm": _("Confirm"),
        "decline": _("No, don't"),
        "confirm_pay": _("Confirm and pay {amount}"),
        "expires_in": _("Expires in"),
        "irreversible": _("This cannot be undone."),
        "exact_call": _("Exactly what will be done"),
        "waiting_fan": _("Waiting for the fan to confirm"),
        "waiting_reviewer": _("Waiting for the box office"),
        "waiting_reviewer_text": _(
            "Somebody at the box office has to agree to this. You can go on talking meanwhile."
        ),
        "withdraw": _("Withdraw the request"),
        "sent_decision": _("Sending…"),
        "state_approved_fan": _("Confirmed"),
        "state_approved_reviewer": _("Approved by the box office"),
        "state_executed": _("Done"),
        "state_failed": _("Agreed, but it did not work"),
        "state_unknown": _("Agreed; the outcome is being looked at"),
        "state_denied_fan": _("Declined"),
        "state_denied_reviewer": _("Not approved by the box office"),
        "state_expired": _("Expired without an answer"),
        "state_withdrawn": _("Withdrawn"),
        "reason": _("Reason"),
    }

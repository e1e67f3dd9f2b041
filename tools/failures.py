"""What went wrong with a call, by what may be done about it.

Worth another try: it took too long, or the other side could not be reached or said "not now".
Not worth one: a refusal, invalid arguments, what is absent or forbidden, a mistake in the tool.
"""

import random

from boxoffice.common.types import JsonObject

MOST_TRIES = 3
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# A pause up to here is waited for in the worker's event loop, where it holds neither a thread nor
# a connection. A fan is waiting: whoever says "come back in a minute" is answered to the model.
LONGEST_WAIT_SECONDS = 5.0

TIMEOUT = "timeout"
UNAVAILABLE = "tool_unavailable"
FAILED = "tool_failed"
# Codes that only dispatch gives: a business refusal never has one of them.
RETRYABLE = frozenset({TIMEOUT, UNAVAILABLE})
PARTY_FAILED = frozenset({TIMEOUT, UNAVAILABLE, FAILED})


def pause_before(next_try: int, retry_after: float | None = None) -> float | None:
    """Seconds to wait before the ``next_try`` (2, 3), with jitter; ``None``: do not try again.

    A ``Retry-After`` is obeyed: never earlier than it says.
    """
    if next_try > MOST_TRIES:
        return None
    base: float = min(FIRST_PAUSE_SECONDS * 2 ** (next_try - 2), LONGEST_PAUSE_SECONDS)
    seconds = max(base, retry_after or 0.0)
    if seconds > LONGEST_WAIT_SECONDS:
        return None
    return seconds + random.uniform(0, base / 4)  # noqa: S311 - only spreads tries out


def unavailable(name: str, retry_after: float | None = None) -> JsonObject:
    """The error of a party that could not be reached, or said "not now"."""
    when = f" in {retry_after:.0f} seconds" if retry_after else " later"
    return {
        "code": UNAVAILABLE,
        "message": f"{name} cannot be reached at the moment; nothing was changed.",
        "retryable": True,
        "hint": f"Tell the fan, and that it can be tried again{when}.",
        **({"retry_after_s": round(retry_after)} if retry_after else {}),
    }


def timed_out(name: str, seconds: float) -> JsonObject:
    """The error of a tool that was stopped."""
    return {
        "code": TIMEOUT,
        "message": f"{name} took longer than {seconds:g} seconds and was stopped.",
        "retryable": True,
        "hint": "Nothing was changed. Try once more, or ask for less.",
    }


def failed() -> JsonObject:
    """The error of a tool with a mistake in it."""
    return {
        "code": FAILED,
        "message": "This does not work at the moment; nothing was changed.",
        "retryable": False,
        "hint": "Say so, and offer to hand over to a person of the box office.",
    }

"""The one place that asks for the time, so that tests can move it.

A process takes its own clock's word once, and counts from there by one that nobody sets: whoever
corrects or breaks the machine's clock ends no hold, lease or request. Where the database's clock
says something else, it is right: all processes then agree. Leases are compared by it alone.
"""

import time
from datetime import datetime, timedelta

from django.utils import timezone

# Two machines that are kept on time differ by less.
TOLERANCE = timedelta(seconds=2)
# Counts on while the machine sleeps, where there is such a clock.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_since: tuple[datetime, float] | None = None


def now() -> datetime:
    """The present instant, time-zone aware (UTC)."""
    if _since is None:
        return timezone.now()
    moment, at = _since
    return moment + timedelta(seconds=time.clock_gettime(_STEADY) - at)


def agree_with(moment: datetime) -> None:
    """The database says that it is ``moment``: count on from here, or from there if we differ."""
    global _since
    known = now()
    if abs(known - moment) > TOLERANCE:
        known = moment
    elif _since is not None:
        return
    _since = (known, time.clock_gettime(_STEADY))

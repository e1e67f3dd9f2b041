"""The one place that asks for the time, so that tests can move it."""

from datetime import datetime

from django.utils import timezone


def now() -> datetime:
    """The present instant, time-zone aware (UTC)."""
    return timezone.now()

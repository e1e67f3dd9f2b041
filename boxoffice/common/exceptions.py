"""The root of the product's own errors."""

import math
from email.utils import parsedate_to_datetime
from typing import Any

from boxoffice.common.clock import now


class BoxOfficeError(Exception):
    """An error whose receiver is told what happened and what to do about it.

    ``code`` is stable and for machines, the message is for people, ``retryable`` says whether the
    same request can succeed later unchanged, ``hint`` says what would help instead, and ``status``
    is the HTTP status with which the REST doors answer.
    """

    code = "error"
    retryable = False
    hint = ""
    status = 400

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.extra: dict[str, Any] = {}  # more members for the problem details
        if hint is not None:
            self.hint = hint

    def as_data(self) -> dict[str, Any]:
        """The form in which the model sees the error (SPEC: errors are data)."""
        return {
            "error": {
                "code": self.code,
                "message": self.message,
                "retryable": self.retryable,
                "hint": self.hint,
            }
        }


class NotFound(BoxOfficeError):
    """The thing does not exist, or is not the caller's to see: the answer is the same."""

    code = "not_found"
    status = 404


class Conflict(BoxOfficeError):
    """The thing is no longer in the state that the request needs."""

    code = "conflict"
    status = 409


class Forbidden(BoxOfficeError):
    """The caller is known, and may not do this."""

    code = "forbidden"
    status = 403


class InvalidInput(BoxOfficeError):
    """The request cannot be understood; the message names the field and the bound."""

    code = "invalid_input"
    status = 422


class TooLarge(BoxOfficeError):
    """The request's body has more bytes than are read."""

    code = "too_large"
    status = 413


class TooMany(BoxOfficeError):
    """Too much was asked for in too short a time; ``retry_after`` is in whole seconds."""

    code = "rate_limited"
    status = 429
    retryable = True

    def __init__(self, message: str, *, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.extra = {"retry_after": retry_after}


class NotSent(Exception):
    """A request to another party surely never reached it: it may be made again as it is.

    Not a ``BoxOfficeError``: whoever asked tries again, and puts the end of it into words.
    ``retry_after``: seconds that the other party wants to be left alone for, if it said so.
    """

    def __init__(self, message: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OutcomeLost(Exception):
    """Another party may have done what it was asked for, or not: it has to be looked up."""


def retry_after(said: str) -> float | None:
    """The seconds of a ``Retry-After`` header, which may also name a date; ``None`` for neither."""
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(said) - now()).total_seconds()
        except (TypeError, ValueError):  # no date, or one without a zone
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None

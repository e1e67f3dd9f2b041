"""The database is away: how that is told from other errors, and what is said of it."""

from django.db import Error, InterfaceError, OperationalError
from django.utils.translation import gettext as _

from boxoffice.common.exceptions import BoxOfficeError

# A connection that was lost or could not be had; a server that ends, or is too busy.
AWAY: tuple[type[Error], ...] = (OperationalError, InterfaceError)
RETRY_AFTER_SECONDS = 3


class DatabaseAway(BoxOfficeError):
    """The database cannot be asked now: the request was done as a whole, or nothing of it was."""

    code = "database_unavailable"
    retryable = True
    status = 503


def database_away() -> DatabaseAway:
    """The error for whoever asked, in their language."""
    return DatabaseAway(
        _("The box office cannot be reached for the moment. What was saved is safe."),
        hint=_("Try again in a moment; nothing counts twice."),
    )

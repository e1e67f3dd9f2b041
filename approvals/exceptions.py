"""Why a decision was not taken."""

from boxoffice.common.exceptions import Conflict, Forbidden
from boxoffice.common.types import JsonObject


class AlreadyDecided(Conflict):
    """Somebody (or the clock) was first. ``extra`` says who, when and how."""

    code = "already_decided"
    hint = "Read the request again; it shows what was decided."

    def __init__(self, message: str, *, extra: JsonObject) -> None:
        super().__init__(message)
        self.extra = extra


class FourEyes(Forbidden):
    """Whoever asked, or whose agent asked, does not decide at a reviewer's gate."""

    code = "four_eyes"
    hint = "Another reviewer has to decide on this request."

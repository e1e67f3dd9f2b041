"""Why a replay or a fork is refused."""

from collections.abc import Sequence

from agents.replay.changes import Change
from boxoffice.common.exceptions import Conflict


class RunNotOver(Conflict):
    """Only what has ended can be walked through again."""

    code = "run_not_over"
    retryable = True


class NothingFollows(Conflict):
    """After that step there was nothing to do."""

    code = "nothing_follows"


class RecordIncomplete(Conflict):
    """What is stored does not suffice, and is not made up."""

    code = "record_incomplete"


class UnsafeStep(Conflict):
    """Going on from there could do something else than what was proposed."""

    code = "unsafe_step"


class ThingsChanged(Conflict):
    """The run would go on under other conditions; ``changes`` in the problem details lists them."""

    code = "replay_changed"

    def __init__(self, message: str, *, changes: Sequence[Change], hint: str) -> None:
        super().__init__(message, hint=hint)
        self.changes = tuple(changes)
        self.extra = {"changes": [change.as_data() for change in changes]}

"""Whether a run still gets anywhere: two or three calls in turn, or one again and again.

A turn brings something new when one of its calls was not made before in the run, or is a read that
answers what it did not answer before. A write that is made again is never news, whatever ids its
result has. Nothing here is stored: it is counted from the committed calls, anew after a resume.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tools import dispatch
from tools.models import ToolCall

NOTHING_NEW = "nothing_new"
# In quarters of a turn. A turn with nothing new counts four, one with something new takes one back:
# who looks at the same thing again at every fifth step never comes to any limit, and who alternates
# between a write and its inverse (whose ids are new each time) does.
STALE, FRESH = 4, 1
# Twice the same answer may be an accident or a check; after the third the model is told, and calls
# that were made before are not run. It has two turns to do something else, as with the same
# failure; then a person goes on. Two calls in turn end so at the eighth model call, of twelve.
TOLD_AT = 3 * STALE
STUCK_AT = 5 * STALE

# When it was asked and where it is kept: different each time, and no news.
_PROVENANCE = {"as_of", "cut"}


@dataclass(slots=True)
class Progress:
    """What came of a run's calls so far. ``score`` is how long it has not got anywhere."""

    score: int = 0
    _answers: dict[tuple[str, str], set[bytes]] = field(default_factory=dict)

    def turn(self, calls: Sequence[ToolCall]) -> None:
        """Count one turn, whose calls are over."""
        news = [self._is_news(call) for call in calls]
        if not news:
            return
        self.score = max(0, self.score - FRESH) if any(news) else self.score + STALE

    def is_idle(self, call: ToolCall) -> bool:
        """Whether the call was made before, in a run that gets nowhere: it is not run again."""
        return self.score >= TOLD_AT and self._was_made(call)

    def is_stuck(self, calls: Sequence[ToolCall]) -> bool:
        """Whether the model was told, and asks for nothing but the same."""
        return self.score >= STUCK_AT and all(self._was_made(call) for call in calls)

    def _was_made(self, call: ToolCall) -> bool:
        return (call.tool, call.args_hash) in self._answers

    def _is_news(self, call: ToolCall) -> bool:
        known = self._answers.get((call.tool, call.args_hash))
        if known is None:
            self._answers[call.tool, call.args_hash] = {_digest(call)}
            return True
        if call.reason_code == NOTHING_NEW or not dispatch.is_read(call.tool):
            return False
        answer = _digest(call)
        if answer in known:
            return False
        known.add(answer)
        return True


def _digest(call: ToolCall) -> bytes:
    """The answer as far as it can be news; of an error, its code."""
    answer: Any = (call.error or {}).get("code", "")
    if isinstance(call.result, dict):
        answer = {key: value for key, value in call.result.items() if key not in _PROVENANCE}
    text = json.dumps(answer, sort_keys=True)
    return hashlib.sha256(text.encode()).digest()

"""What rules would have done to the calls of the last days, before they take effect."""

import json
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from approvals import ports
from approvals.policies.rules import Effect, Rule, Ruling, decide, policy_make
from boxoffice.common.clock import now
from boxoffice.common.types import JsonObject

DAYS = 7
MAX_DAYS = 90
MAX_CALLS = 10_000
SECONDS = 8.0
SHOWN = 200
MAX_TEXT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A call that would have gone another way."""

    call_id: UUID
    created_at: datetime
    tool: str
    who: str
    arguments: JsonObject
    before: Effect
    after: Ruling

    @property
    def arguments_text(self) -> str:
        """The arguments on one line."""
        return as_text(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What came of it. ``by_rule`` counts the calls that each rule decides, ``failed`` those on
    which a rule could not be evaluated, ``unread`` those that today's tools do not read."""

    days: int
    calls: int
    is_cut: bool
    before: dict[str, int]
    after: dict[str, int]
    by_rule: dict[str, int]
    failed: int
    unread: int
    changes: int
    changed: list[Changed]

    def as_data(self) -> JsonObject:
        """The trial as JSON."""
        return {
            "days": self.days,
            "calls": self.calls,
            "is_cut": self.is_cut,
            "before": self.before,
            "after": self.after,
            "by_rule": self.by_rule,
            "failed": self.failed,
            "unread": self.unread,
            "changes": self.changes,
            "changed": [
                {
                    "call": str(one.call_id),
                    "created_at": one.created_at.isoformat(),
                    "tool": one.tool,
                    "who": one.who,
                    "arguments": one.arguments,
                    "before": one.before.value,
                    "after": one.after.effect.value,
                    "reviewers": one.after.reviewers,
                    "rule": one.after.rule,
                    "code": one.after.code,
                }
                for one in self.changed
            ],
        }


def as_text(arguments: JsonObject) -> str:
    """Arguments as JSON on one line, cut where nobody reads on."""
    text = json.dumps(arguments, ensure_ascii=False)
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"


def what_if(rules: list[Rule], *, days: int = DAYS, seconds: float = SECONDS) -> Trial:
    """Put rules to the newest calls of the open tenant's last days.

    At most ``MAX_CALLS`` of them, and as many as ``seconds`` allow.
    """
    days = max(1, min(days, MAX_DAYS))
    policy = policy_make("trial", rules)
    before, after = Counter[str](), Counter[str]()
    by_rule = Counter[str]()
    changed: list[Changed] = []
    total = failed = unread = changes = 0
    is_late = False
    since = now() - timedelta(days=days)
    until = time.monotonic() + seconds
    for call in ports.calls().past_calls(since=since, most=MAX_CALLS):
        if time.monotonic() > until:
            is_late = True
            break
        total += 1
        before[call.effect.value] += 1
        if call.facts is None:
            unread += 1
            continue
        ruling = decide(policy, call.facts)
        after[ruling.effect.value] += 1
        failed += ruling.code == "policy_error"
        by_rule[ruling.rule] += bool(ruling.rule)
        if ruling.effect is not call.effect:
            changes += 1
            if len(changed) < SHOWN:
                changed.append(_changed(call, ruling))
    return Trial(
        days=days,
        calls=total,
        is_cut=is_late or total >= MAX_CALLS,
        before=_in_order(before),
        after=_in_order(after),
        by_rule={rule.name: by_rule[rule.name] for rule in rules},
        failed=failed,
        unread=unread,
        changes=changes,
        changed=changed,
    )


def _changed(call: ports.PastCall, ruling: Ruling) -> Changed:
    return Changed(
        call_id=call.call_id,
        created_at=call.created_at,
        tool=call.tool,
        who=call.who,
        arguments=call.arguments,
        before=call.effect,
        after=ruling,
    )


def _in_order(counts: Counter[str]) -> dict[str, int]:
    return {effect.value: counts[effect.value] for effect in Effect}

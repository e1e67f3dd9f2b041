"""Rules, and what they say of one call, over plain facts.

Of all rules that match, the most restrictive counts. A rule that cannot be evaluated counts as one
that asks a reviewer: closed, never open.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import cel
from django.db import models
from django.utils.translation import gettext_lazy as _

from approvals.policies.bounds import ExpressionInvalid
from approvals.policies.expressions import (
    EvaluationFailed,
    Expression,
    context_add,
    context_of,
    expression_read,
)
from boxoffice.common.types import JsonObject

logger = logging.getLogger(__name__)

ANY = "*"
BUILT_IN = "built-in:1"
MAX_REVIEWERS = 5
# Of facts larger than this nothing is read: a condition's time grows with them.
MAX_TEXT = 65_536
MAX_ITEMS = 100
MAX_LEVELS = 12
# Of processor time, for all rules about one call: what is not asked by then counts as failed.
MAX_SECONDS = 1.0


class Effect(models.TextChoices):
    """What is to become of a call."""

    ALLOW = "allow", _("allow")
    CONFIRM = "confirm", _("confirm by the fan")
    APPROVE = "approve", _("approve by a reviewer")
    DENY = "deny", _("deny")


SEVERITY = {Effect.ALLOW: 0, Effect.CONFIRM: 1, Effect.APPROVE: 2, Effect.DENY: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One rule as it is stored. ``tiers`` empty stands for all; ``message`` is told on a denial."""

    name: str
    tools: tuple[str, ...]
    when: str
    effect: Effect
    tiers: tuple[str, ...] = ()
    reviewers: int = 1
    message: str = ""

    def as_data(self) -> JsonObject:
        """The rule as JSON."""
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in (asdict(self) | {"effect": self.effect.value}).items()
        }

    @classmethod
    def from_data(cls, data: JsonObject) -> "Rule":
        """The rule that ``as_data`` was taken of."""
        return cls(
            name=data["name"],
            tools=tuple(data["tools"]),
            tiers=tuple(data["tiers"]),
            when=data["when"],
            effect=Effect(data["effect"]),
            reviewers=data["reviewers"],
            message=data["message"],
        )

    def covers(self, tool: str) -> bool:
        """Whether the rule is about that tool."""
        return tool in self.tools or ANY in self.tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One call as rules see it.

    ``default`` is what holds where no rule says anything. ``floor`` is what becomes of a call that
    would run without a human although the run has read text from outside, if that matters for it.
    ``values`` are the variables of the
    conditions, but for ``preview``, which is made only when one of them reads it.
    """

    tool: str
    tier: str
    default: Effect
    is_destructive: bool
    is_anonymous: bool
    may_ask_reviewer: bool
    values: Mapping[str, Any]
    preview: Callable[[], Any]
    floor: Effect = Effect.ALLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What is to become of a call, and why. ``code`` is stable; ``rule`` is the rule's name."""

    effect: Effect
    code: str
    rule: str = ""
    message: str = ""
    reviewers: int = 1

    @property
    def severity(self) -> tuple[int, int]:
        """Greater is more restrictive."""
        return SEVERITY[self.effect], self.reviewers if self.effect is Effect.APPROVE else 0


DEFAULT_CODES = {
    Effect.ALLOW: "allowed",
    Effect.CONFIRM: "risk_confirm",
    Effect.APPROVE: "risk_approve",
}
# It would have run by itself, but text from outside was read before.
OUTSIDE_TEXT = "outside_text"
# A call that was refused with one of these came as far as the rules.
REFUSED_BY_POLICY = frozenset({"policy_deny", "policy_error", "needs_human"})


@dataclass(frozen=True, slots=True)
class Ready:
    """A rule ready to be asked; ``expression`` is ``None`` when its condition cannot be read."""

    rule: Rule
    expression: Expression | None


@dataclass(slots=True)
class _Reading:
    """The facts of one call as conditions read them; what cannot be read fails each that asks."""

    facts: Facts
    _context: cel.Context | None = None
    _has_preview: bool = False
    _faults: dict[str, EvaluationFailed] = field(default_factory=dict)

    def context(self, variables: frozenset[str]) -> cel.Context:
        """What a condition with these variables reads; made once, and so is what is wrong."""
        if self._context is None:
            self._context = self._once("facts", self._make)
        if "preview" in variables and not self._has_preview:
            preview = self._once("preview", self._preview)
            context_add(self._context, "preview", preview)
            self._has_preview = True
        return self._context

    def _once[T](self, name: str, make: Callable[[], T]) -> T:
        if name in self._faults:
            raise self._faults[name]
        try:
            return make()
        except EvaluationFailed as fault:
            self._faults[name] = fault
            raise

    def _make(self) -> cel.Context:
        _check_size(self.facts.values.get("args"))
        return context_of(self.facts.values)

    def _preview(self) -> Any:
        try:
            preview = self.facts.preview()
        except Exception as error:
            raise EvaluationFailed("There is no preview.") from error
        _check_size(preview)
        return preview


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of one version, compiled. ``label`` is what verdicts store."""

    label: str
    rules: tuple[Ready, ...]
    _by_tool: dict[str, tuple[Ready, ...]] = field(default_factory=dict, compare=False)

    def about(self, tool: str) -> tuple[Ready, ...]:
        """The rules about one tool, in their order."""
        found = self._by_tool.get(tool)
        if found is None:
            found = tuple(ready for ready in self.rules if ready.rule.covers(tool))
            if len(self._by_tool) < 1000:  # names are a model's to invent
                self._by_tool[tool] = found
        return found


def policy_make(label: str, rules: Sequence[Rule]) -> Policy:
    """Compile rules. One that cannot be compiled fails whenever it is asked."""
    return Policy(label, tuple(Ready(rule, _expression(rule)) for rule in rules))


def _expression(rule: Rule) -> Expression | None:
    try:
        return expression_read(rule.when)
    except ExpressionInvalid as error:
        logger.error("rule %s cannot be read: %s", rule.name, error)
        return None


def decide(policy: Policy | None, facts: Facts) -> Ruling:
    """What is to become of a call. Never raises for what a rule or an argument holds."""
    ruling = _strictest(policy, facts) if policy is not None else None
    if ruling is None:
        ruling = Ruling(effect=facts.default, code=DEFAULT_CODES[facts.default])
    return _within_bounds(ruling, facts)


def _strictest(policy: Policy, facts: Facts) -> Ruling | None:
    reading, found = _Reading(facts), None
    until = time.thread_time() + MAX_SECONDS
    for ready in policy.about(facts.tool):
        if ready.rule.tiers and facts.tier not in ready.rule.tiers:
            continue
        is_late = time.thread_time() > until
        said = _failed(ready.rule) if is_late else _say(ready, reading)
        if said is not None and (found is None or said.severity > found.severity):
            found = said
            if found.effect is Effect.DENY:
                break
    return found


def _say(ready: Ready, reading: _Reading) -> Ruling | None:
    rule = ready.rule
    try:
        if ready.expression is None:
            raise EvaluationFailed("The condition cannot be read.")
        holds = ready.expression.evaluate(reading.context(ready.expression.variables))
    except EvaluationFailed as error:
        logger.info("rule %s failed on %s: %s", rule.name, reading.facts.tool, error.message)
        return _failed(rule)
    if not holds:
        return None
    return Ruling(
        effect=rule.effect,
        code=f"policy_{rule.effect.value}",
        rule=rule.name,
        message=rule.message,
        reviewers=rule.reviewers,
    )


def _failed(rule: Rule) -> Ruling:
    """As strict as the rule itself where it would ask more reviewers; never less than one."""
    reviewers = rule.reviewers if rule.effect is Effect.APPROVE else 1
    return Ruling(effect=Effect.APPROVE, code="policy_error", rule=rule.name, reviewers=reviewers)


def _within_bounds(ruling: Ruling, facts: Facts) -> Ruling:
    """What no rule can change: a human for what cannot be undone, and who may be asked."""
    effect, code = ruling.effect, ruling.code
    if effect is Effect.ALLOW and facts.is_destructive:
        effect = Effect.CONFIRM
    if ruling.effect is Effect.ALLOW and SEVERITY[facts.floor] > SEVERITY[effect]:
        effect, code = facts.floor, OUTSIDE_TEXT
    if effect is Effect.APPROVE and not facts.may_ask_reviewer:
        effect, code = Effect.DENY, "policy_error" if code == "policy_error" else "needs_human"
    if effect is Effect.CONFIRM and facts.is_anonymous:
        effect, code = Effect.DENY, "sign_in_required"
    if (effect, code) == (ruling.effect, ruling.code):
        return ruling
    return Ruling(effect=effect, code=code, rule=ruling.rule, reviewers=ruling.reviewers)


def _check_size(value: Any) -> None:
    """Raise for facts that are too large to be asked about."""
    left = [MAX_TEXT]

    def walk(node: Any, levels: int) -> None:
        if levels > MAX_LEVELS:
            raise EvaluationFailed("The arguments are nested too deeply.")
        if isinstance(node, str | bytes):
            left[0] -= len(node)
        elif isinstance(node, dict | list | tuple):
            if len(node) > MAX_ITEMS:
                raise EvaluationFailed("The arguments have too many items.")
            for key in node if isinstance(node, dict) else ():
                left[0] -= len(str(key))
            for child in node.values() if isinstance(node, dict) else node:
                walk(child, levels + 1)
        if left[0] < 0:
            raise EvaluationFailed("The arguments are too long.")

    walk(value, 0)

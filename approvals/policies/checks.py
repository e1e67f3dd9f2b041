"""Whether rules fit this tenant: its tiers, the tools and their schemas, and what they are made of.

A rule that would fail at run time gates the call; here its author is told beforehand.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import cel
from django.utils.translation import gettext as _

from approvals.models import ApprovalRequest
from approvals.policies.document import Placed, Problem, RulesInvalid, rules_read
from approvals.policies.expressions import (
    EvaluationFailed,
    Expression,
    context_of,
    expression_read,
)
from approvals.policies.rules import ANY, Rule
from approvals.policies.samples import arguments_of, fields_of
from approvals.policies.tokens import Path, position
from approvals.ports import ToolInfo, calls
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Tier

# The variables of a condition, and their fields where these are fixed.
VARIABLES: dict[str, frozenset[str] | None] = {
    "args": None,
    "preview": frozenset({"summary", "before", "after", "warnings", "undo"}),
    "tool": frozenset({"name", "risk", "owner"}),
    "fan": frozenset({"id", "role", "is_anonymous", "days_here", "language"}),
    "tier": frozenset({"slug", "may_ask_reviewer"}),
    "tenant": frozenset({"slug", "time_zone"}),
    "run": frozenset({"is_tainted"}),
    "now": None,
}
PREVIEWS_LOOKED_AT = 3


def rules_check(text: str) -> tuple[list[Rule], list[Problem]]:
    """The rules of a document, and warnings about them; in the scope of one tenant.

    Raises ``RulesInvalid`` with every problem found.
    """
    placed = rules_read(text)
    against = _Against()
    problems = [problem for one in placed for problem in against.problems(one)]
    errors = [problem for problem in problems if not problem.is_warning]
    if errors:
        raise RulesInvalid(errors)
    return [one.rule for one in placed], problems


class _Against:
    """What rules are held against: the tools and tiers of now."""

    def __init__(self) -> None:
        self.tools = {tool.name: tool for tool in calls().tools()}
        tiers = Tier.objects.values_list("slug", "is_anonymous", "can_approve_human")
        self.tiers = {slug: (is_anonymous, may_ask) for slug, is_anonymous, may_ask in tiers}
        self._made: dict[tuple[str, bool], list[tuple[str, cel.Context]]] = {}

    def problems(self, placed: Placed) -> list[Problem]:
        """What is wrong with one rule; what it names first, because the rest follows from it."""
        found = list(self._names(placed))
        if found:
            return found
        expression = expression_read(placed.rule.when)
        found = list(self._variables(placed, expression)) + list(self._fields(placed, expression))
        return found or list(self._tried(placed, expression))

    def _names(self, placed: Placed) -> Iterator[Problem]:
        rule = placed.rule
        for name in rule.tools:
            if name != ANY and name not in self.tools:
                said = _("There is no tool “%(name)s”. Known: %(known)s.")
                known = ", ".join(self.tools)
                yield placed.problem("tools", said % {"name": name, "known": known})
        for slug in rule.tiers:
            if slug not in self.tiers:
                said = _("There is no tier “%(name)s”. Known: %(known)s.")
                known = ", ".join(sorted(self.tiers))
                yield placed.problem("tiers", said % {"name": slug, "known": known})

    def _variables(self, placed: Placed, expression: Expression) -> Iterator[Problem]:
        unknown = expression.variables - VARIABLES.keys()
        places = {path.names[0]: path for path in reversed(expression.paths)}
        for name in sorted(unknown):
            said = _("There is no variable “%(name)s”. Known: %(known)s.")
            text = said % {"name": name, "known": ", ".join(VARIABLES)}
            yield self._at(placed, expression, places.get(name), text)

    def _fields(self, placed: Placed, expression: Expression) -> Iterator[Problem]:
        for path in expression.paths:
            if len(path.names) < 2 or path.names[0] not in VARIABLES:
                continue
            root, name = path.names[:2]
            if root == "args":
                if not path.is_asked and not self._has_argument(placed.rule, name):
                    said = _("None of the rule's tools has an argument “%(name)s”: %(known)s.")
                    known = ", ".join(sorted(self._arguments(placed.rule)))
                    text = said % {"name": name, "known": known}
                    yield self._at(placed, expression, path, text)
                continue
            known_fields = VARIABLES[root]
            if known_fields is not None and name not in known_fields:
                said = _("“%(root)s” has no field “%(name)s”. Known: %(known)s.")
                known = ", ".join(sorted(known_fields))
                text = said % {"root": root, "name": name, "known": known}
                yield self._at(placed, expression, path, text)

    def _at(
        self, placed: Placed, expression: Expression, path: Path | None, message: str
    ) -> Problem:
        line, column = position(expression.source, path.at) if path else (1, 1)
        return placed.problem("when", message, line=line, column=column)

    def _covered(self, rule: Rule) -> list[ToolInfo]:
        return [tool for tool in self.tools.values() if rule.covers(tool.name)]

    def _arguments(self, rule: Rule) -> set[str]:
        return {name for tool in self._covered(rule) for name in fields_of(tool.schema) or ()}

    def _has_argument(self, rule: Rule, name: str) -> bool:
        known = [fields_of(tool.schema) for tool in self._covered(rule)]
        return any(fields is None or name in fields for fields in known)

    def _tried(self, placed: Placed, expression: Expression) -> Iterator[Problem]:
        """Evaluate over made-up calls of each tool; the first failure of a tool is told."""
        uses_preview = "preview" in expression.variables
        for tool in self._covered(placed.rule):
            calls_made = self._calls(tool, uses_preview)
            if self.tiers and not calls_made:
                said = _("%(tool)s has shown no preview here yet: its fields are not checked.")
                text = said % {"tool": tool.name}
                yield placed.problem("when", text, is_warning=True)
                continue
            failure = _failure(placed.rule, expression, calls_made)
            if failure is not None:
                line, column = expression.place(failure.field)
                said = _("Over a call of %(tool)s this fails: %(why)s")
                text = said % {"tool": tool.name, "why": failure.message}
                if failure.field:
                    text += " " + _("Ask first whether it is there: has(…).")
                yield placed.problem("when", text, line=line, column=column)
                return

    def _calls(self, tool: ToolInfo, uses_preview: bool) -> list[tuple[str, cel.Context]]:
        """Made-up calls of a tool as conditions read them, each with its tier; made once."""
        key = tool.name, uses_preview
        if key not in self._made:
            previews = self._previews_of(tool) if uses_preview else [{}]
            self._made[key] = [
                (slug, context_of(_sample(tool, slug, is_anonymous, may_ask, arguments, preview)))
                for slug, (is_anonymous, may_ask) in self.tiers.items()
                for arguments in arguments_of(tool.schema)
                for preview in previews
            ]
        return self._made[key]

    def _previews_of(self, tool: ToolInfo) -> list[JsonObject]:
        """Previews that this tenant has seen; an empty one of a tool that has none."""
        if not tool.has_preview:
            return [{}]
        rows = ApprovalRequest.objects.filter(action=tool.name, preview__isnull=False)
        newest = rows.order_by("-id").values_list("preview", flat=True)
        return [dict(one or {}) for one in newest[:PREVIEWS_LOOKED_AT]]


def _failure(
    rule: Rule, expression: Expression, made: list[tuple[str, cel.Context]]
) -> EvaluationFailed | None:
    for tier, context in made:
        if rule.tiers and tier not in rule.tiers:
            continue
        try:
            expression.evaluate(context)
        except EvaluationFailed as failure:
            return failure
    return None


def _sample(
    tool: ToolInfo,
    tier: str,
    is_anonymous: bool,
    may_ask: bool,
    arguments: JsonObject,
    preview: JsonObject,
) -> dict[str, Any]:
    return {
        "args": arguments,
        "preview": preview,
        "tool": {"name": tool.name, "risk": tool.risk, "owner": tool.owner},
        "fan": {
            "id": 0 if is_anonymous else 1,
            "role": "anonymous" if is_anonymous else "fan",
            "is_anonymous": is_anonymous,
            "days_here": 0 if is_anonymous else 30,
            "language": "pt-br",
        },
        "tier": {"slug": tier, "may_ask_reviewer": may_ask},
        "tenant": {"slug": "sample", "time_zone": "America/Sao_Paulo"},
        "run": {"is_tainted": False},
        "now": datetime(2026, 1, 5, 12, tzinfo=UTC),
    }

"""Rules as YAML: what people edit, import and export. Errors say where they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from approvals.policies.bounds import ExpressionInvalid
from approvals.policies.expressions import expression_read
from approvals.policies.rules import MAX_REVIEWERS, Effect, Rule
from boxoffice.common.exceptions import InvalidInput

MAX_BYTES = 200_000
MAX_RULES = 500
MAX_PROBLEMS = 50
MAX_NAME = 80
MAX_MESSAGE = 500
FIELDS = ("name", "tools", "tiers", "when", "effect", "reviewers", "message")

# Written in C, which also bounds how deep a document may be nested.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is wrong, and where: the rule's name (or number), its field, the place in the text.

    A problem with ``is_warning`` does not keep the rules from being stored.
    """

    message: str
    line: int = 1
    column: int = 1
    rule: str = ""
    field: str = ""
    is_warning: bool = False

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.rule, self.field) if part)
        return f"{self.line}:{self.column}: {f'{where}: ' if where else ''}{self.message}"


class RulesInvalid(InvalidInput):
    """The rules are refused; ``problems`` says why and where."""

    code = "rules_invalid"
    hint = "Each problem names its line and column, the rule and the field."

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(one) for one in problems))
        self.problems = problems
        self.extra = {"problems": [str(one) for one in problems]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A rule, and where its parts stand in the text that it was read from."""

    rule: Rule
    nodes: dict[str, Any]
    lines: list[str]

    def problem(
        self, field: str, message: str, *, line: int = 1, column: int = 1, is_warning: bool = False
    ) -> Problem:
        """A problem of one field; line and column count within a condition's own text."""
        node = self.nodes.get(field) or self.nodes["name"]
        at = self._place(node, line, column) if field == "when" else _start(node)
        return Problem(
            message=message,
            line=at[0],
            column=at[1],
            rule=self.rule.name,
            field=field,
            is_warning=is_warning,
        )

    def _place(self, node: Any, line: int, column: int) -> tuple[int, int]:
        """Where a place within a scalar stands; its beginning where YAML has folded the lines."""
        first, start = _start(node)
        if node.style == "|":  # its lines follow, all indented like the first
            body = next((one for one in self.lines[first:] if one.strip()), "")
            return first + line, len(body) - len(body.lstrip()) + column
        if line == 1 and node.start_mark.line == node.end_mark.line:
            return first, start + (node.style in {"'", '"'}) + column - 1
        return first, start


class _Found(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class _Several(Exception):
    """Several faults of one rule."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems


def rules_read(text: str) -> list[Placed]:
    """The rules of a document, in order. Raises ``RulesInvalid`` with everything found wrong."""
    problems: list[Problem] = []
    placed: list[Placed] = []
    try:
        nodes = _rule_nodes(text)
    except _Found as found:
        raise RulesInvalid([found.problem]) from None
    lines = text.split("\n")
    for number, node in enumerate(nodes, 1):
        try:
            placed.append(_rule(node, number, lines))
        except _Found as found:
            problems.append(found.problem)
        except _Several as several:
            problems += several.problems
        if len(problems) >= MAX_PROBLEMS:
            break
    problems += _twice(placed)
    if problems:
        raise RulesInvalid(sorted(problems, key=lambda one: (one.line, one.column)))
    return placed


def _fail(node: Any, message: str, *, rule: str = "", field: str = "") -> _Found:
    line, column = _start(node)
    return _Found(Problem(message=message, line=line, column=column, rule=rule, field=field))


def _start(node: Any) -> tuple[int, int]:
    return (node.start_mark.line + 1, node.start_mark.column + 1) if node is not None else (1, 1)


def _rule_nodes(text: str) -> list[Any]:
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        said = _("The text has at most %(most)d bytes.") % {"most": MAX_BYTES}
        raise _Found(Problem(message=said))
    root = _composed(text)
    if root is None:
        return []
    if isinstance(root, yaml.MappingNode):
        fields = _fields(root, "", ("rules",))
        root = fields.get("rules")
        if root is None:
            return []
    if not isinstance(root, yaml.SequenceNode):
        raise _fail(root, _("A list of rules is expected: “rules:”, then one “- name: …” each."))
    if len(root.value) > MAX_RULES:
        raise _fail(root, _("At most %(most)d rules.") % {"most": MAX_RULES})
    return list(root.value)


def _composed(text: str) -> Any:
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
                raise _fail(event, _("Anchors and aliases are not read."))
        return yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        said = getattr(error, "problem", None) or str(error).split("\n")[0]
        raise _Found(
            Problem(
                message=_("Not valid YAML: %(said)s") % {"said": said},
                line=mark.line + 1 if mark else 1,
                column=mark.column + 1 if mark else 1,
            )
        ) from None
    except (RecursionError, ValueError):
        raise _Found(Problem(message=_("Not valid YAML."))) from None


def _fields(node: Any, rule: str, known: tuple[str, ...]) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise _fail(node, _("“name: value” pairs are expected."), rule=rule)
    found: dict[str, Any] = {}
    for key, value in node.value:
        name = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
        if name not in known:
            said = _("There is no field “%(name)s”. Known: %(known)s.")
            raise _fail(key, said % {"name": name, "known": ", ".join(known)}, rule=rule)
        if name in found:
            raise _fail(key, _("“%(name)s” is there twice.") % {"name": name}, rule=rule)
        found[name] = value
    return found


def _rule(node: Any, number: int, lines: list[str]) -> Placed:
    label = f"#{number}"
    fields = _fields(node, label, FIELDS)
    for name in ("name", "tools", "when", "effect"):
        if name not in fields:
            raise _fail(node, _("“%(name)s” is missing.") % {"name": name}, rule=label)
    name = _string(fields["name"], label, "name", most=MAX_NAME)
    if not name or "\n" in name:
        raise _fail(fields["name"], _("A name is one line of text."), rule=label, field="name")
    problems: list[Problem] = []

    def read[T](field: str, reader: Callable[[Any], T], default: T) -> T:
        if field not in fields:
            return default
        try:
            return reader(fields[field])
        except _Found as found:
            problems.append(found.problem)
            return default

    rule = Rule(
        name=name,
        tools=read("tools", lambda one: _list(one, name, "tools", least=1), ()),
        tiers=read("tiers", lambda one: _list(one, name, "tiers"), ()),
        when=read("when", lambda one: _condition(one, name), ""),
        effect=read("effect", lambda one: _effect(one, name), Effect.DENY),
        reviewers=read("reviewers", lambda one: _reviewers(one, name), 1),
        message=read("message", lambda one: _string(one, name, "message", most=MAX_MESSAGE), ""),
    )
    placed = Placed(rule=rule, nodes=fields, lines=lines)
    if not problems:
        problems += _together(placed)
        try:
            expression_read(rule.when)
        except ExpressionInvalid as error:
            problems.append(
                placed.problem("when", error.message, line=error.line, column=error.column)
            )
    if problems:
        raise _Several(problems)
    return placed


def _together(placed: Placed) -> Iterator[Problem]:
    rule = placed.rule
    if rule.reviewers != 1 and rule.effect is not Effect.APPROVE:
        yield placed.problem("reviewers", _("Only “approve” has reviewers."))
    if rule.message and rule.effect is not Effect.DENY:
        yield placed.problem("message", _("Only “deny” has a message."))


def _twice(placed: list[Placed]) -> Iterator[Problem]:
    seen: set[str] = set()
    for one in placed:
        if one.rule.name in seen:
            yield one.problem("name", _("Another rule has this name."))
        seen.add(one.rule.name)


_STRING, _INTEGER = "tag:yaml.org,2002:str", "tag:yaml.org,2002:int"


def _string(node: Any, rule: str, field: str, *, most: int) -> str:
    if not isinstance(node, yaml.ScalarNode) or node.tag != _STRING:
        raise _fail(node, _("Text is expected; put it in quotes."), rule=rule, field=field)
    value = str(node.value).strip()
    if len(value) > most:
        said = _("At most %(most)d characters.") % {"most": most}
        raise _fail(node, said, rule=rule, field=field)
    if "\0" in value:
        raise _fail(node, _("A NUL character cannot be stored."), rule=rule, field=field)
    return value


def _condition(node: Any, rule: str) -> str:
    # “true” and “false” are conditions as well as YAML's own words.
    if node.tag == "tag:yaml.org,2002:bool" and node.value in {"true", "false"}:
        return str(node.value)
    if not isinstance(node, yaml.ScalarNode) or node.tag != _STRING or "\0" in node.value:
        raise _fail(node, _("A condition in CEL is expected."), rule=rule, field="when")
    return str(node.value).rstrip()


def _list(node: Any, rule: str, field: str, *, least: int = 0) -> tuple[str, ...]:
    items = node.value if isinstance(node, yaml.SequenceNode) else [node]
    words = tuple(_string(item, rule, field, most=128) for item in items)
    if len(words) < least or len(words) > 100 or len(set(words)) != len(words) or "" in words:
        said = _('A list of different names is expected, e.g. [refund_order], or ["*"].')
        raise _fail(node, said, rule=rule, field=field)
    return words


def _effect(node: Any, rule: str) -> Effect:
    if not isinstance(node, yaml.ScalarNode) or node.value not in Effect.values:
        said = _("One of %(known)s is expected.") % {"known": ", ".join(Effect.values)}
        raise _fail(node, said, rule=rule, field="effect")
    return Effect(node.value)


def _reviewers(node: Any, rule: str) -> int:
    value = str(getattr(node, "value", ""))
    is_number = getattr(node, "tag", "") == _INTEGER and value.isascii() and value.isdigit()
    if not is_number or len(value) > 9 or not 1 <= int(value) <= MAX_REVIEWERS:
        said = _("A number from 1 to %(most)d is expected.") % {"most": MAX_REVIEWERS}
        raise _fail(node, said, rule=rule, field="reviewers")
    return int(value)

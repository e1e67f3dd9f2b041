"""One condition of a rule, in CEL.

Read and bounded before it is stored, evaluated once for each call it is about. The library has no
types: whatever goes wrong in an evaluation is one failure, and the call is gated.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cel
from django.utils.translation import gettext as _

from approvals.policies.bounds import ExpressionInvalid, cost_check, depth_check, length_check
from approvals.policies.tokens import Path, paths_of, position, tokens_of


class EvaluationFailed(Exception):
    """A condition has no answer over these facts; ``field`` is the one that was missing, if any."""

    def __init__(self, message: str, *, field: str = "") -> None:
        super().__init__(message)
        self.message, self.field = message, field


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition that was let through."""

    source: str
    program: cel.Program
    variables: frozenset[str]
    paths: tuple[Path, ...]

    def evaluate(self, context: cel.Context) -> bool:
        """Whether the condition holds. Raises ``EvaluationFailed`` for whatever goes wrong."""
        try:
            answer = self.program.execute(context)
        except KeyError as error:
            field = str(error.args[0]) if error.args else ""
            raise EvaluationFailed(
                _("“%(field)s” is not there.") % {"field": field[:80]}, field=field
            ) from None
        except BaseException as error:
            if not _is_fault(error):
                raise
            raise EvaluationFailed(_shortened(error)) from None
        if answer is True or answer is False:
            return answer
        raise EvaluationFailed(
            _("The condition gives %(kind)s, not true or false.") % {"kind": type(answer).__name__}
        )

    def place(self, field: str) -> tuple[int, int]:
        """Line and column of the first mention of a field; the beginning when there is none."""
        for path in self.paths:
            if field in path.names[1:]:
                return position(self.source, path.at)
        return 1, 1


def _is_fault(error: BaseException) -> bool:
    """Whether the library raised it: its panics are no ``Exception``, and interruptions go on."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"


def _shortened(error: BaseException) -> str:
    return str(error).split(". ")[0].strip()[:200] or type(error).__name__


def context_of(facts: Mapping[str, Any]) -> cel.Context:
    """The facts as conditions read them. Raises ``EvaluationFailed`` for what they cannot read."""
    context = cel.Context()
    for name, value in facts.items():
        context_add(context, name, value)
    return context


def context_add(context: cel.Context, name: str, value: Any) -> None:
    """One more fact. Raises as ``context_of``."""
    try:
        context.add_variable(name, value)
    except BaseException as error:
        if not _is_fault(error):
            raise
        raise EvaluationFailed(
            _("%(name)s cannot be read: %(why)s") % {"name": name, "why": _shortened(error)}
        ) from None


def expression_read(source: str) -> Expression:
    """Read a condition. Raises ``ExpressionInvalid``."""
    length_check(source)
    tokens = list(tokens_of(source))
    depth_check(source, tokens)
    program = _compiled(source)
    bound = cost_check(source, tokens, program.functions())
    return Expression(
        source=source,
        program=program,
        variables=frozenset(program.variables()) - bound,
        paths=tuple(paths_of(tokens, bound)),
    )


_PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (?:Syntax error: )?([^\n]*)")


def _compiled(source: str) -> cel.Program:
    if not source.strip():
        raise ExpressionInvalid(_("A condition is missing; “true” always holds."))
    try:
        return cel.compile(source)
    except ValueError as error:
        match = _PLACE.search(str(error))
        if match is None:
            raise ExpressionInvalid(_shortened(error)) from None
        said = match[3].split(" expecting ")[0]
        raise ExpressionInvalid(
            _("Not valid CEL: %(said)s") % {"said": said}, line=int(match[1]), column=int(match[2])
        ) from None
    except BaseException as error:
        if not _is_fault(error):
            raise
        raise ExpressionInvalid(_shortened(error)) from None

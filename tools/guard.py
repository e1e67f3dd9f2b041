"""May this call run? One small check after another; the first refusal counts.

Order: known tool → schema → granted → policy → human gate. Run anew at every dispatch, and again
after every wait.
"""

import json
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from boxoffice.common.types import JsonObject
from tools import registry
from tools.effects import UNREADABLE
from tools.models import Effect, ToolCall
from tools.permissions import Grant, is_granted
from tools.spec import Gate, Risk, ToolInput, ToolSpec

POLICY_VERSION = "built-in:1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the guard says. ``spec`` and ``arguments`` are set unless the call is denied."""

    effect: Effect
    code: str
    message: str = ""
    hint: str = ""
    spec: ToolSpec | None = None
    arguments: ToolInput | None = None
    policy_version: str = POLICY_VERSION

    @property
    def error(self) -> JsonObject:
        """The refusal as the model sees it."""
        return {
            "code": self.code,
            "message": self.message,
            "retryable": False,
            "hint": self.hint,
        }

    def parts(self) -> tuple[ToolSpec, ToolInput]:
        """Tool and arguments of a verdict that lets a call run."""
        if self.spec is None or self.arguments is None:
            raise RuntimeError("A verdict that lets a call run carries its tool and arguments.")
        return self.spec, self.arguments


class ArgumentsInvalid(ValueError):
    """The arguments do not fit the tool's schema; the text names field and bound."""


def check(*, tool: str, arguments: Any, grant: Grant) -> Verdict:
    """The verdict on one call of ``tool`` with the model's raw ``arguments``."""
    spec = registry.find(tool)
    if spec is None or (not is_granted(spec, grant) and not _may_know(spec, grant)):
        return _deny(
            "unknown_tool",
            f"There is no tool named {tool[:80]!r}.",
            "Use one of the tools that are offered.",
        )
    try:
        parsed = parse(spec, arguments)
    except ArgumentsInvalid as error:
        return _deny("invalid_arguments", str(error), "Correct the arguments and call again.")
    if not is_granted(spec, grant):
        return _not_granted(spec, grant)
    return _policy(spec, parsed, grant)


def check_call(*, call: ToolCall, arguments: Any, grant: Grant) -> Verdict:
    """The verdict on a call of the ledger, with its own arguments or edited ones."""
    if isinstance(arguments, dict) and UNREADABLE in arguments:
        return _deny(
            "invalid_arguments",
            "The arguments could not be read as JSON, or are too long.",
            "Send the arguments as one JSON object.",
        )
    return check(tool=call.tool, arguments=arguments, grant=grant)


def _may_know(spec: ToolSpec, grant: Grant) -> bool:
    """A built-in tool is no secret: the refusal says why instead of denying that it exists."""
    return spec.owner == "ticketing" and grant.role != "none"


def _not_granted(spec: ToolSpec, grant: Grant) -> Verdict:
    if grant.is_anonymous:
        return _deny(
            "sign_in_required",
            f"{spec.name} is only for fans who have signed in.",
            "Ask the fan to sign in first.",
        )
    return _deny(
        "not_granted",
        f"{spec.name} is not part of what this fan may use.",
        "Say so, and offer what is possible.",
    )


def _policy(spec: ToolSpec, parsed: ToolInput, grant: Grant) -> Verdict:
    gate = spec.gate
    if spec.risk is Risk.DESTRUCTIVE and gate is Gate.NONE:
        gate = Gate.REVIEWER
    if gate is Gate.REVIEWER and not grant.can_approve_human:
        return _deny(
            "needs_human",
            f"{spec.name} needs a person's approval, which this fan's plan does not include.",
            "Hand the conversation over to a person of the box office.",
        )
    effects = {
        Gate.NONE: (Effect.ALLOW, "allowed"),
        Gate.FAN: (Effect.CONFIRM, "risk_confirm"),
        Gate.REVIEWER: (Effect.APPROVE, "risk_approve"),
    }
    effect, code = effects[gate]
    return Verdict(effect=effect, code=code, spec=spec, arguments=parsed)


def parse(spec: ToolSpec, arguments: Any) -> ToolInput:
    """The arguments as the tool's input model; raises ``ArgumentsInvalid``.

    Strict, and by way of JSON, so that ids and dates are read from text but ``"2"`` is no number.
    """
    if not isinstance(arguments, dict):
        raise ArgumentsInvalid("The arguments are not a JSON object.")
    try:
        text = json.dumps(arguments, allow_nan=False)
    except ValueError:
        raise ArgumentsInvalid("A number in the arguments is not finite.") from None
    try:
        return spec.input_model.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ArgumentsInvalid(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    """One clause for each of the first five faults: the field and the bound, not the input."""
    clauses = []
    for fault in error.errors(include_url=False, include_input=False)[:5]:
        where = ".".join(str(part) for part in fault["loc"]) or "arguments"
        context = fault.get("ctx", {})
        if fault["type"] == "too_long" and "actual_length" in context:
            said = f"at most {context['max_length']} items, not {context['actual_length']}"
        elif fault["type"] == "extra_forbidden":
            said = "this tool has no such argument"
        else:
            said = fault["msg"]
        clauses.append(f"{where[:80]}: {said}")
    return "; ".join(clauses)


def _deny(code: str, message: str, hint: str) -> Verdict:
    return Verdict(effect=Effect.DENY, code=code, message=message, hint=hint)

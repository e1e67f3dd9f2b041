"""May this call run? One small check after another; the first refusal counts.

Order: known tool → schema → granted → switched on → policy → rate limit → circuit → human gate.
Run anew at every dispatch, and again after every wait.
"""

import json
import logging
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from uuid import UUID

from django.db import DatabaseError
from pydantic import ValidationError

from approvals.policies.current import policy_of
from approvals.policies.rules import BUILT_IN, Effect, Facts, Ruling, decide
from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.types import JsonObject, is_too_deep
from tools import registry
from tools.admission import Admission
from tools.effects import UNREADABLE, context_of
from tools.facts import facts_of, seen_of
from tools.models import ToolCall
from tools.permissions import Caller, Grant, is_granted
from tools.previews import preview_of
from tools.spec import ToolContext, ToolInput, ToolSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shadow:
    """What the version in shadow would have said."""

    version: str
    effect: Effect
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the guard says. ``spec`` and ``arguments`` are set unless the call is denied."""

    effect: Effect
    code: str
    message: str = ""
    hint: str = ""
    spec: ToolSpec | None = None
    arguments: ToolInput | None = None
    policy_version: str = BUILT_IN
    rule: str = ""
    reviewers: int = 1
    shadow: Shadow | None = None
    seen: JsonObject | None = None
    refusal: JsonObject | None = None

    @property
    def columns(self) -> JsonObject:
        """The verdict as the ledger keeps it."""
        columns: JsonObject = {
            "verdict": self.effect,
            "reason_code": self.code,
            "policy_version": self.policy_version,
            "policy_rule": self.rule,
        }
        if self.seen is not None:
            columns["seen"] = self.seen
        if self.shadow is not None:
            columns |= {
                "shadow_version": self.shadow.version,
                "shadow_verdict": self.shadow.effect,
                "shadow_rule": self.shadow.rule,
            }
        return columns

    @property
    def error(self) -> JsonObject:
        """The refusal as the model sees it."""
        if self.refusal is not None:
            return self.refusal
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


def check(
    *, tool: str, arguments: Any, grant: Grant, caller: Caller, context: ToolContext
) -> Verdict:
    """The verdict on one call of ``tool`` with the model's raw ``arguments``.

    ``context`` is what the tool would be run with; rules may ask for its preview.
    """
    spec = registry.find(tool)
    if spec is None or (not is_granted(spec, grant) and not _may_know(spec, grant)):
        return _deny(
            "unknown_tool",
            f"There is no tool named {tool[:80]!r}.",
            "Use one of the tools that are offered.",
        )
    if isinstance(arguments, dict) and UNREADABLE in arguments:
        return _deny(
            "invalid_arguments",
            "The arguments could not be read as JSON, or are too long.",
            "Send the arguments as one JSON object.",
        )
    try:
        parsed = parse(spec, arguments)
    except ArgumentsInvalid as error:
        return _deny("invalid_arguments", str(error), "Correct the arguments and call again.")
    if not is_granted(spec, grant):
        return _not_granted(spec, grant)
    if spec.name in grant.off:
        return _off(spec)
    return _policy(spec, parsed, grant, caller, context)


def check_call(*, call: ToolCall, arguments: Any, grant: Grant, caller: Caller) -> Verdict:
    """The verdict on a call of the ledger, with its own arguments or edited ones."""
    context = context_of(call, caller)
    return check(tool=call.tool, arguments=arguments, grant=grant, caller=caller, context=context)


def limited(verdict: Verdict, admission: Admission) -> Verdict:
    """The verdict, unless the tool's rate or circuit holds the call back: that comes before humans.

    Valkey was asked before the transaction; here is the answer's place in the order.
    """
    refusal = admission.refusal
    if verdict.effect is Effect.DENY or refusal is None:
        return verdict
    return replace(verdict, effect=Effect.DENY, code=refusal["code"], refusal=refusal)


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


def _off(spec: ToolSpec) -> Verdict:
    instead = f"Use {spec.successor} instead." if spec.successor else "Offer what is possible."
    return _deny(
        "tool_off",
        f"{spec.name} has been switched off by the box office; nothing was done.",
        f"Say so, and do not try it again. {instead}",
    )


def _policy(
    spec: ToolSpec, parsed: ToolInput, grant: Grant, caller: Caller, context: ToolContext
) -> Verdict:
    faults: list[BoxOfficeError] = []

    @cache  # the version in shadow may read it as well
    def preview() -> JsonObject | None:
        try:
            return preview_of(spec, context, parsed)
        except BoxOfficeError as error:
            faults.append(error)
            raise

    call = facts_of(spec, parsed, grant, caller, preview)
    policy = policy_of(grant.policy) if grant.policy is not None else None
    ruling = decide(policy, call)
    is_denied = ruling.effect is Effect.DENY
    refusal = _refusal(spec, ruling, faults) if is_denied else {}
    return Verdict(
        effect=ruling.effect,
        code=ruling.code,
        spec=None if is_denied else spec,
        arguments=None if is_denied else parsed,
        policy_version=policy.label if policy is not None else BUILT_IN,
        rule=ruling.rule,
        reviewers=ruling.reviewers,
        shadow=_shadow(grant.shadow, call) if grant.shadow is not None else None,
        seen=seen_of(grant, caller),
        **refusal,
    )


def _shadow(version_id: UUID, call: Facts) -> Shadow | None:
    """The version in shadow over the same facts; nothing that happens to it is the call's."""
    try:
        policy = policy_of(version_id)
        ruling = decide(policy, call)
    except DatabaseError:
        raise  # the transaction is the call's own
    except Exception:
        logger.exception("the rules in shadow have failed")
        return None
    return Shadow(version=policy.label, effect=ruling.effect, rule=ruling.rule)


def _refusal(spec: ToolSpec, ruling: Ruling, faults: list[BoxOfficeError]) -> dict[str, Any]:
    """What the model is told: the rule's own message, or why there is no preview to judge by."""
    if ruling.code == "policy_error" and faults:
        return {"message": faults[0].message, "hint": faults[0].hint}
    if ruling.code == "policy_deny":
        message = ruling.message or f"{spec.name} is not allowed here with these arguments."
        return {
            "message": message,
            "hint": "Say so, with the reason; do not try to get around it.",
        }
    if ruling.code == "sign_in_required":
        return {
            "message": f"{spec.name} has to be confirmed by a fan who has signed in.",
            "hint": "Ask the fan to sign in first.",
        }
    return {
        "message": f"{spec.name} needs a person's approval, "
        "which this fan's plan does not include.",
        "hint": "Hand the conversation over to a person of the box office.",
    }


def parse(spec: ToolSpec, arguments: Any) -> ToolInput:
    """The arguments as the tool's input model; raises ``ArgumentsInvalid``.

    Strict, and by way of JSON, so that ids and dates are read from text but ``"2"`` is no number.
    """
    if not isinstance(arguments, dict):
        raise ArgumentsInvalid("The arguments are not a JSON object.")
    if is_too_deep(arguments):
        raise ArgumentsInvalid("The arguments nest too deeply.")
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

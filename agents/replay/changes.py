"""What is no longer as it was when a run was recorded: said, never guessed over."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from django.utils.translation import gettext as _

from agents.context.prompt import Setting, system_prompt
from agents.context.request import split_system
from agents.models import Conversation, PromptVersion
from boxoffice.common.clock import now
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import Membership, Tenant, Tier
from tools import guard, registry
from tools.admission import MOMENTARY
from tools.guard import Verdict
from tools.models import ToolCall
from tools.permissions import Caller, Grant, grant_of, offered_tools

# Said by the loop, or of that moment's traffic, not by a rule: the guard has no opinion on them.
LOOP_REFUSALS = frozenset({"too_many_calls", "repeated_failure", "run_ended"}) | MOMENTARY
_LOST = frozenset({"not_granted", "sign_in_required", "unknown_tool"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that differs. ``code`` is stable and for machines."""

    code: str
    message: str
    tool: str = ""

    def as_data(self) -> JsonObject:
        """For problem details and reports."""
        told = {"code": self.code, "message": self.message}
        return told | {"tool": self.tool} if self.tool else told


@dataclass(frozen=True, slots=True, kw_only=True)
class Today:
    """What a caller would meet now: their tier, what they may use, what the model would be told.

    ``models`` are the aliases that some tier of the tenant names.
    """

    caller: Caller
    tier: str
    role: str
    grant: Grant
    system: list[JsonObject]
    models: frozenset[str]

    @property
    def offer(self) -> dict[str, str]:
        """The versions of the tools that would be offered, by name."""
        return {spec.name: spec.version for spec in offered_tools(self.grant)}


def today_of(conversation: Conversation, *, user_id: int | None) -> Today:
    """How things stand for a user (``None``: a visitor) in a conversation of the open tenant."""
    tenant = Tenant.objects.get(pk=conversation.tenant_id)
    caller = Caller(
        tenant_id=tenant.pk,
        user_id=user_id,
        time_zone=tenant.time_zone,
        language=conversation.language,
    )
    grant = grant_of(caller)
    setting = Setting(
        tenant=tenant.name, language=conversation.language, time_zone=tenant.time_zone
    )
    return Today(
        caller=caller,
        tier=_tier_of(user_id),
        role=grant.role,
        grant=grant,
        system=split_system(system_prompt(setting, now()))[0],
        models=frozenset(Tier.objects.values_list("model_alias", flat=True)),
    )


def _tier_of(user_id: int | None) -> str:
    if user_id is None:
        return Tier.objects.filter(is_anonymous=True).values_list("slug", flat=True).first() or ""
    found = Membership.objects.filter(user=user_id, is_active=True).select_related("tier").first()
    return found.tier.slug if found else ""


def prompt_changes(prompt: PromptVersion | None, today: Today, *, model: str) -> list[Change]:
    """How the prompt, its tools and its model differ from what would be sent now."""
    if prompt is None:
        unknown = Change(
            code="prompt_unknown",
            message=_("What the model was told at this step was not kept."),
        )
        return [unknown, *model_changes(model, today)]
    changes = model_changes(prompt.model, today)
    if prompt.system != today.system:
        changes.append(
            Change(
                code="prompt_changed",
                message=_("The system prompt has another text today."),
            )
        )
    if prompt.tools:  # else it was a last step, which offers none on any day
        offer = {one["name"]: one["version"] for one in prompt.tools if not _is_core(one["name"])}
        changes += _offer_changes(offer, today)
    return changes


def model_changes(model: str, today: Today) -> list[Change]:
    """Whether the model is still one of the tenant's."""
    if model in today.models:
        return []
    message = _("No tier uses the model %(model)s any more.") % {"model": model}
    return [Change(code="model_gone", message=message)]


def _is_core(tool: str) -> bool:
    """Whether the tool comes with any other, and is offered by what the history holds."""
    spec = registry.find(tool)
    return spec is not None and spec.is_core


def _offer_changes(then: dict[str, str], today: Today) -> list[Change]:
    changes = [change for name, version in then.items() for change in tool_changes(name, version)]
    offer = today.offer
    for name in sorted(set(then) - set(offer)):
        if registry.find(name) is not None:
            message = _("%(tool)s was offered then and is not granted now.") % {"tool": name}
            changes.append(Change(code="tool_not_offered", message=message, tool=name))
    for name in sorted(set(offer) - set(then)):
        message = _("%(tool)s is offered now and was not then.") % {"tool": name}
        changes.append(Change(code="tool_added", message=message, tool=name))
    return changes


def tool_changes(name: str, version: str) -> list[Change]:
    """Whether a tool is still there, and still the same."""
    spec = registry.find(name)
    if spec is None:
        if not version:
            return []  # it was not there then either
        message = _("There is no tool named %(tool)s any more.") % {"tool": name}
        return [Change(code="tool_gone", message=message, tool=name)]
    if spec.version == version:
        return []
    message = _("%(tool)s is version %(now)s today; it was %(then)s.") % {
        "tool": name,
        "now": spec.version,
        "then": version or "–",
    }
    return [Change(code="tool_changed", message=message, tool=name)]


def verdict_today(call: ToolCall, today: Today) -> Verdict:
    """What the guard says of a recorded call now, with the arguments that were to be run."""
    request = call.approval
    edited = request.edited_arguments if request is not None else None
    arguments = call.arguments if edited is None else edited
    was_tainted = bool((call.seen or {}).get("is_tainted"))
    caller = replace(today.caller, is_tainted=was_tainted)
    return guard.check_call(call=call, arguments=arguments, grant=today.grant, caller=caller)


def call_changes(call: ToolCall, verdict: Verdict, today: Today, *, tier: str) -> list[Change]:
    """How a call would be judged otherwise now, and what that comes from."""
    changes = tool_changes(call.tool, call.tool_version)
    if not call.verdict or call.reason_code in LOOP_REFUSALS:
        return changes
    if call.policy_version and call.policy_version != verdict.policy_version:
        numbers = {"then": call.policy_version, "now": verdict.policy_version}
        message = _("The rules are %(now)s today; they were %(then)s.") % numbers
        changes.append(Change(code="policy_changed", message=message, tool=call.tool))
    if (call.verdict, call.reason_code) == (verdict.effect, verdict.code):
        return changes
    told = {
        "then": f"{call.verdict} ({call.reason_code})",
        "now": f"{verdict.effect} ({verdict.code})",
    }
    message = _("The guard says %(now)s today; it said %(then)s.") % told
    changes.append(Change(code="verdict_changed", message=message, tool=call.tool))
    if verdict.code in _LOST:
        message = _("Who asked may not use %(tool)s any more.") % {"tool": call.tool}
        changes.append(Change(code="grant_lost", message=message, tool=call.tool))
    if tier != today.tier:
        numbers = {"then": tier, "now": today.tier or "–"}
        message = _("Who asked is in tier %(now)s now; it was %(then)s.") % numbers
        changes.append(Change(code="tier_changed", message=message))
    return changes


def distinct(changes: Iterable[Change]) -> Sequence[Change]:
    """Each change once, in the order in which it was met."""
    return list(dict.fromkeys(changes))

"""What the console's pages of runs show of JSON, money and steps."""

import json
from typing import Any

from django import template
from django.utils.translation import gettext_lazy as _

from agents.models import StepKind
from agents.replay.again import Outcome
from agents.replay.dry import RequestReplay
from boxoffice.common.types import JsonObject
from tools.models import Effect

register = template.Library()


@register.filter
def json_text(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


@register.filter
def dollars(micros: int) -> str:
    """Millionths of a US dollar as people read them."""
    return f"US$ {micros / 1_000_000:,.6f}"


_OUTCOMES: dict[str, Any] = {
    Outcome.SAME_CALLS: _("the same calls"),
    Outcome.SAME_ANSWER: _("the same answer"),
    Outcome.OTHER_WORDS: _("an answer in other words"),
    Outcome.OTHER_ARGUMENTS: _("the same tools with other arguments"),
    Outcome.OTHER_CALLS: _("other calls"),
    Outcome.ANSWERED: _("an answer instead of calls"),
    Outcome.CALLED: _("calls instead of an answer"),
    Outcome.CUT_SHORT: _("cut short"),
}


@register.filter
def outcome(code: str) -> str:
    """How a turn of today compares with the recorded one, in words."""
    return str(_OUTCOMES.get(code, code))


@register.filter
def effect(code: str) -> str:
    """What the guard said, in words."""
    return str(Effect(code).label) if code else "–"


@register.filter
def step_kind(kind: str) -> str:
    """What a step added, in words."""
    return str(StepKind(kind).label)


@register.filter
def request_text(request: RequestReplay, prompts: dict[str, JsonObject]) -> str:
    """A request with its prompt, the tools by name and version."""
    prompt = prompts.get(request.prompt, {})
    shown = {
        "model": prompt.get("model"),
        "max_tokens": request.max_tokens,
        "system": [block["text"] for block in [*prompt.get("system", []), *request.rest]],
        "tools": [f"{tool['name']} {tool['version']}" for tool in prompt.get("tools", [])],
        "blocks_before": request.after_blocks,
        "messages": request.messages,
    }
    return json_text(shown)

"""What the console's pages of runs show of JSON, money and steps."""

import json
from typing import Any

from django import template

from agents.models import StepKind
from agents.replay.dry import RequestReplay
from boxoffice.common.types import JsonObject

register = template.Library()


@register.filter
def json_text(value: Any) -> str:
    """A value as indented JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


@register.filter
def dollars(micros: int) -> str:
    """Millionths of a US dollar as people read them."""
    return f"US$ {micros / 1_000_000:,.6f}"


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

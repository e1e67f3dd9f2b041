"""Personal data in the log of calls: which arguments are somebody's, and what is shown instead."""

import re
from typing import Any

from boxoffice.common.types import JsonObject
from tools import registry
from tools.models import ToolCall
from tools.personal import personal_names

HIDDEN = "•••"
ADDRESS = re.compile(r"[^\s@<>\"',;:()\[\]]+@[^\s@<>\"',;:()\[\]]+\.[^\s@<>\"',;:()\[\]]+")


def masked(call: ToolCall, value: Any) -> Any:
    """Arguments or result of a call as they are shown to whoever may not see people's data.

    Of a tool that does not exist any more all text is hidden: nobody knows what it is.
    """
    spec = registry.find(call.tool)
    if spec is None:
        return _masked(value, None)
    return _masked(value, personal_names(spec.input_model) | personal_names(spec.output_model))


def masked_error(error: JsonObject | None) -> JsonObject | None:
    """An error without the addresses that its words may hold."""
    found: JsonObject | None = _masked(error, frozenset())
    return found


def _masked(value: Any, hide: frozenset[str] | None) -> Any:
    if isinstance(value, dict):
        return {
            _without_addresses(key): _hidden(inner)
            if hide is not None and key in hide
            else _masked(inner, hide)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_masked(inner, hide) for inner in value]
    if isinstance(value, str):
        return HIDDEN if hide is None else _without_addresses(value)
    return value


def _hidden(value: Any) -> Any:
    return value if value is None else HIDDEN


def _without_addresses(text: str) -> str:
    return ADDRESS.sub(HIDDEN, text)

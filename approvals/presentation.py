"""A request as a person reads it: what changes, how to undo it, with which arguments."""

import json
from dataclasses import dataclass
from typing import Any

from approvals.models import ApprovalRequest
from approvals.wording import spoken, value_words
from boxoffice.common.types import JsonObject

_SPOKEN = {"summary", "before", "after", "warnings", "undo"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field of a preview, before and after; ``is_changed``: the action touches it."""

    name: str
    before: str
    after: str
    is_changed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A name and what it holds."""

    name: str
    value: str


def changes_of(preview: JsonObject | None) -> list[Change]:
    """The fields of ``before`` and ``after`` side by side, in the preview's own order."""
    before, after = _object(preview, "before"), _object(preview, "after")
    names = list(dict.fromkeys([*before, *after]))
    return [
        Change(
            name=spoken(name),
            before=_in_words(name, before[name]) if name in before else "",
            after=_in_words(name, after[name]) if name in after else "",
            is_changed=(name in before, before.get(name)) != (name in after, after.get(name)),
        )
        for name in names
    ]


def warnings_of(preview: JsonObject | None) -> list[str]:
    """What the action's owner wants the reviewer to know."""
    found = (preview or {}).get("warnings") or []
    return [text_of(one) for one in (found if isinstance(found, list) else [found])]


def extras_of(preview: JsonObject | None) -> list[Field]:
    """What else the preview says."""
    return [
        Field(name=spoken(name), value=_in_words(name, value))
        for name, value in (preview or {}).items()
        if name not in _SPOKEN
    ]


def fields_of(values: JsonObject) -> list[Field]:
    """The members of an object as text, exactly as they are."""
    return [Field(name=name, value=text_of(value)) for name, value in values.items()]


def arguments_text(request: ApprovalRequest) -> str:
    """The arguments as JSON for the editor."""
    return json.dumps(request.effective_arguments, indent=2, ensure_ascii=False)


def text_of(value: Any) -> str:
    """A JSON value for reading; what is exact in JSON stays exact."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return json.dumps(value, indent=2, ensure_ascii=False)


def _in_words(name: str, value: Any) -> str:
    words = value_words(name, value)
    return text_of(value) if words is None else words


def _object(preview: JsonObject | None, name: str) -> JsonObject:
    found = (preview or {}).get(name)
    if found is None:
        return {}
    return found if isinstance(found, dict) else {name: found}

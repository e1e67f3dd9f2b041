"""Identifiers and values of a preview in a reviewer's words.

Whoever owns an action marks its words for translation; what is marked nowhere is shown as it is
written. Exact arguments are never put into words: they are what will be executed.
"""

from datetime import datetime
from typing import Any

from django.utils.formats import date_format, number_format
from django.utils.translation import gettext

AMOUNT = "_brl"
STATES = {"status", "state"}


def spoken(identifier: str) -> str:
    """An identifier as words: ``starts_at`` → “começa em”, ``paid_brl`` → “pago”."""
    words = identifier.removesuffix(AMOUNT).replace("_", " ").strip()
    return gettext(words) if words else identifier


def action_words(action: str) -> str:
    """The name of an action as a heading: ``refund_order`` → “Reembolsar pedido”."""
    words = action.replace("_", " ").strip().capitalize()
    return gettext(words) if words else action


def value_words(name: str, value: Any) -> str | None:
    """A field's value as a person writes it; ``None`` when it has no such form."""
    if isinstance(value, bool):
        return gettext("yes") if value else gettext("no")
    if isinstance(value, str):
        return _text(name, value)
    if isinstance(value, int | float) and name.endswith(AMOUNT):
        return f"R$\u00a0{number_format(value, 2, use_l10n=True, force_grouping=True)}"
    if isinstance(value, dict):
        return " · ".join(f"{spoken(key)}: {_inner(key, one)}" for key, one in value.items())
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return "\n".join(value_words(name, one) or "" for one in value)
    return None


def _inner(name: str, value: Any) -> str:
    return value_words(name, value) or str(value)


def _text(name: str, value: str) -> str:
    if name in STATES:
        return spoken(value)
    if name.endswith("_at"):
        try:
            return date_format(datetime.fromisoformat(value), "SHORT_DATETIME_FORMAT")
        except ValueError:
            return value
    return value

"""Value types that several rooms share."""

import uuid
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from uuid_utils import compat

JsonObject = dict[str, Any]


def uuid7() -> uuid.UUID:
    """A time-ordered identifier: new rows land at the end of an index, and sort by age."""
    return compat.uuid7()


def brl(minor: int) -> float:
    """Centavos as a BRL amount for JSON: ``24000 -> 240.0``."""
    return minor / 100


def minor(amount: float | str | Decimal) -> int:
    """A BRL amount as centavos, half a centavo rounded up: ``240.0 -> 24000``."""
    return int((Decimal(str(amount)) * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP))


# What people and models write nests a handful deep; Python itself gives up near a thousand.
MOST_DEPTH = 100


def is_too_deep(value: Any) -> bool:
    """Whether a JSON value nests more than ``MOST_DEPTH`` deep; no recursion itself."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            item
            for each in level
            if isinstance(each, (dict, list))
            for item in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def storable(value: Any) -> Any:
    """A JSON value that PostgreSQL's jsonb takes: no NUL, no lone surrogate, no NaN."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [storable(item) for item in value]
    return value

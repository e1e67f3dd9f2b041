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

"""What model calls cost, and what has been spent."""

import time
from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from boxoffice.billing.exceptions import PriceMissing
from boxoffice.billing.models import ModelPrice
from boxoffice.common.batch import Answer, Batch
from boxoffice.common.clock import now
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import current_tenant_id

CACHE_SECONDS = 60.0
PER = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitPrices:
    """Millionths of a US dollar per million tokens. ``matched`` is the row's prefix."""

    input: int
    output: int
    cache_read: int
    cache_write: int
    matched: str

    def as_data(self) -> dict[str, int | str]:
        """The form in which the ledger keeps them."""
        return asdict(self)

    def cost_micros(
        self, *, input_tokens: int, output_tokens: int, cache_read: int = 0, cache_write: int = 0
    ) -> int:
        """What these tokens cost, in millionths of a US dollar, rounded up."""
        total = (
            input_tokens * self.input
            + output_tokens * self.output
            + cache_read * self.cache_read
            + cache_write * self.cache_write
        )
        return -(-total // PER)


@dataclass(slots=True)
class _Cache:
    prices: list[ModelPrice]
    read_at: float


_cache: _Cache | None = None


def prices_forget() -> None:
    """Read the table of prices anew at the next call (in this process)."""
    global _cache
    _cache = None


def _table() -> list[ModelPrice]:
    """All price rows, at most a minute old."""
    global _cache
    cache = _cache
    if cache is None or time.monotonic() - cache.read_at > CACHE_SECONDS or not cache.prices:
        cache = _cache = _Cache(list(ModelPrice.objects.all()), time.monotonic())
    return cache.prices


def unit_prices(*, model: str, at: datetime | None = None) -> UnitPrices:
    """The unit prices of ``model`` at that moment (default: now).

    A model without a price of its own is charged as the dearest one that has, so that budgets
    hold. Raises ``PriceMissing`` when there is no price at all.
    """
    moment = at or now()
    valid = [price for price in _table() if price.valid_from <= moment]
    if not valid:
        raise PriceMissing("No model has a price.")
    fitting = [price for price in valid if model.startswith(price.alias_prefix)]
    if fitting:
        found = max(fitting, key=lambda price: (len(price.alias_prefix), price.valid_from))
    else:
        found = max(valid, key=lambda price: (price.output_micros, price.input_micros))
    return UnitPrices(
        input=found.input_micros,
        output=found.output_micros,
        cache_read=found.cache_read_micros,
        cache_write=found.cache_write_micros,
        matched=found.alias_prefix,
    )


def spent_today_micros(*, user_id: int | None) -> int:
    """What a fan has spent since midnight in the tenant's time zone, in millionths of a dollar.

    ``None`` stands for all visitors who did not sign in, together: they share one allowance.
    """
    tenant = Tenant.objects.get(pk=current_tenant_id())
    batch = Batch()
    spent_today_ask(batch, tenant_id=tenant.pk, time_zone=tenant.time_zone, user_id=user_id)
    return spent_today_read(*batch.send())


_SPENT = """
SELECT coalesce(sum(cost_micros), 0)::bigint FROM billing_usageentry
WHERE tenant_id = %s AND created_at >= %s AND user_id IS NOT DISTINCT FROM %s
"""


def spent_today_ask(batch: Batch, *, tenant_id: UUID, time_zone: str, user_id: int | None) -> None:
    """Add the question of ``spent_today_micros`` to a batch; ``spent_today_read`` reads it."""
    today = now().astimezone(ZoneInfo(time_zone))
    midnight = today.replace(hour=0, minute=0, second=0, microsecond=0)
    batch.add(_SPENT, [tenant_id, midnight, user_id])


def spent_today_read(answer: Answer) -> int:
    """Millionths of a dollar."""
    return int(answer.rows[0][0])

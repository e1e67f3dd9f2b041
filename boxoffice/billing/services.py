"""Writing down what was spent."""

from typing import Any
from uuid import UUID

from boxoffice.billing.models import UsageEntry
from boxoffice.billing.selectors import spent_today_micros, unit_prices
from boxoffice.tenancy.scope import current_tenant_id

__all__ = ["spent_today_micros", "usage_entry", "usage_record"]


def usage_record(**about: Any) -> UsageEntry:
    """Enter one model call in the ledger, in the caller's transaction; as ``usage_entry``."""
    entry = usage_entry(**about)
    entry.save(force_insert=True)
    return entry


def usage_entry(
    *,
    user_id: int | None,
    run_id: UUID | None,
    model: str,
    input_tokens: int,
    output_tokens: int,
    cache_read_tokens: int = 0,
    cache_write_tokens: int = 0,
    tenant_id: UUID | None = None,
) -> UsageEntry:
    """What one model call has cost, still to be entered in the ledger.

    ``tenant_id`` defaults to the open scope's. ``input_tokens`` are those neither read from nor
    written to the cache, as the Messages API counts them. Raises ``PriceMissing``.
    """
    prices = unit_prices(model=model)
    return UsageEntry(
        tenant_id=tenant_id or current_tenant_id(),
        user_id=user_id,
        run_ref=run_id,
        model=model[:100],
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=cache_read_tokens,
        cache_write_tokens=cache_write_tokens,
        cost_micros=prices.cost_micros(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cache_read=cache_read_tokens,
            cache_write=cache_write_tokens,
        ),
        prices=prices.as_data(),
    )

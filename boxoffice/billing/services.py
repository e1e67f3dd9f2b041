"""Writing down what was spent."""

from uuid import UUID

from boxoffice.billing.models import UsageEntry
from boxoffice.billing.selectors import spent_today_micros, unit_prices
from boxoffice.tenancy.scope import current_tenant_id

__all__ = ["spent_today_micros", "usage_record"]


def usage_record(
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
    """Enter one model call in the ledger, in the caller's transaction; returns it with its cost.

    ``tenant_id`` defaults to the open scope's. ``input_tokens`` are those neither read from nor
    written to the cache, as the Messages API counts them. Raises ``PriceMissing``.
    """
    prices = unit_prices(model=model)
    return UsageEntry.objects.create(
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

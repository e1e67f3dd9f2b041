"""The vendor's list prices with which a new installation begins; the console edits them.

They are put in whenever the table of prices is empty after a migration, so a call never runs
without a price. The demo model is charged by the same arithmetic under the name that it plays.
"""

from datetime import UTC, datetime
from typing import Any

from django.apps import AppConfig, apps

# Millionths of a US dollar per million tokens: input, output, cache read, cache write (5 min).
LIST_PRICES = {
    "claude-haiku-4-5": (1_000_000, 5_000_000, 100_000, 1_250_000),
    "claude-sonnet-4-7": (3_000_000, 15_000_000, 300_000, 3_750_000),
    "claude-opus-4-7": (5_000_000, 25_000_000, 500_000, 6_250_000),
}
LIST_DATE = datetime(2026, 1, 1, tzinfo=UTC)


def list_prices_seed(sender: AppConfig, using: str, **kwargs: Any) -> None:
    """Receiver of ``post_migrate``: fill the table of prices if it is empty."""
    model = apps.get_model("billing", "ModelPrice")
    rows = model._default_manager.using(using)
    if rows.exists():
        return
    rows.bulk_create(
        model(
            alias_prefix=prefix,
            input_micros=put_in,
            output_micros=given_out,
            cache_read_micros=read,
            cache_write_micros=written,
            valid_from=LIST_DATE,
        )
        for prefix, (put_in, given_out, read, written) in LIST_PRICES.items()
    )

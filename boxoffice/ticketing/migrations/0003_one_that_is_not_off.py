"""A hold has one order that is not cancelled, an order one refund that has not failed.

So far there is one of each at all; the next migration gives that up. Built while the site works.
"""

from django.db import migrations, models
from django.db.models import Q


def one(model: str, field: str, off: str, name: str) -> migrations.SeparateDatabaseAndState:
    """The partial unique index of a constraint, without stopping those who write."""
    return migrations.SeparateDatabaseAndState(
        database_operations=[
            migrations.RunSQL(
                f"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {name} "
                f"ON ticketing_{model} ({field}_id) WHERE NOT (status = '{off}')",
                f"DROP INDEX CONCURRENTLY IF EXISTS {name}",
            )
        ],
        state_operations=[
            migrations.AddConstraint(
                model, models.UniqueConstraint(fields=[field], condition=~Q(status=off), name=name)
            )
        ],
    )


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("ticketing", "0002_row_level_security")]
    reviewed = {
        "sql": "The index is built concurrently, and the one-to-one keys are stricter than it.",
        "narrows": "The one-to-one keys of the release before are stricter than this.",
    }

    operations = [
        one("order", "hold", "cancelled", "order_once_per_hold"),
        one("refund", "order", "failed", "refund_once_per_order"),
    ]

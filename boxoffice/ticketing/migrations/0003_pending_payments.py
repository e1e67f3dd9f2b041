"""An order is there before its money is: pending and failed states, and a second try after one.

What was a one-to-one key becomes "one that is not off", so that an order whose payment failed does
not stand in the way of the next.
"""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

from boxoffice.tenancy.rls import state_guard
from boxoffice.ticketing.models import sales

HOLD = [
    ("active", "active"),
    ("paying", "being paid"),
    ("released", "released"),
    ("expired", "expired"),
    ("converted", "bought"),
]
ORDER = [
    ("pending", "being paid"),
    ("paid", "paid"),
    ("refunded", "refunded"),
    ("cancelled", "not paid"),
]
PAYMENT = [
    ("pending", "asked for"),
    ("captured", "captured"),
    ("refunded", "refunded"),
    ("failed", "not taken"),
]
REFUND = [("pending", "pending"), ("refunded", "refunded"), ("failed", "not given back")]


def status(model: str, choices: list[tuple[str, str]], default: str) -> list[object]:
    """More words for a status, known to the database too."""
    name = f"{model}_status_known"
    condition = Q(status__in=[value for value, _ in choices])
    return [
        migrations.RemoveConstraint(model, name),
        migrations.AlterField(
            model,
            "status",
            models.CharField(
                choices=choices, default=default, max_length=16, verbose_name="status"
            ),
        ),
        migrations.AddConstraint(model, models.CheckConstraint(condition=condition, name=name)),
    ]


def several(model: str, field: str, to: str, off: str, name: str, reverse: str) -> list[object]:
    """From one row for each key to one that is not off."""
    return [
        migrations.AddConstraint(
            model,
            models.UniqueConstraint(fields=[field], condition=~Q(status=off), name=name),
        ),
        migrations.AlterField(
            model,
            field,
            models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name=reverse, to=to
            ),
        ),
    ]


class Migration(migrations.Migration):
    dependencies = [("ticketing", "0002_row_level_security")]

    operations = [
        *status("hold", HOLD, "active"),
        *status("order", ORDER, "paid"),
        *status("payment", PAYMENT, "captured"),
        *status("refund", REFUND, "pending"),
        *several("order", "hold", "ticketing.hold", "cancelled", "order_once_per_hold", "orders"),
        *several(
            "refund", "order", "ticketing.order", "failed", "refund_once_per_order", "refunds"
        ),
        migrations.AlterField(
            "payment",
            "provider_id",
            models.CharField(blank=True, max_length=200, verbose_name="id at the provider"),
        ),
        state_guard("ticketing_hold", sales.HOLD, initial=["active"]),
        state_guard("ticketing_order", sales.ORDER, initial=["pending", "paid"]),
        state_guard("ticketing_payment", sales.PAYMENT, initial=["pending", "captured"]),
        state_guard("ticketing_refund", sales.REFUND, initial=["pending"]),
    ]

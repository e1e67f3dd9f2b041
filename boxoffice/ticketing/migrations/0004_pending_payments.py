"""An order is there before its money is: pending and failed states, and a second try after one.

What was a one-to-one key becomes "one that is not off", so that an order whose payment failed does
not stand in the way of the next.
"""

import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import state_guard

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


HOLD_MOVES = {
    "active": {"released", "expired", "paying", "converted"},
    "paying": {"converted", "active"},
    "released": set(),
    "expired": set(),
    "converted": set(),
}
ORDER_MOVES = {
    "pending": {"paid", "cancelled"},
    "paid": {"refunded"},
    "refunded": set(),
    "cancelled": set(),
}
PAYMENT_MOVES = {
    "pending": {"captured", "failed"},
    "captured": {"refunded"},
    "refunded": set(),
    "failed": set(),
}
REFUND_MOVES = {"pending": {"refunded", "failed"}, "refunded": set(), "failed": set()}
GUARDS = [
    ("ticketing_hold", HOLD_MOVES, ["active"]),
    ("ticketing_order", ORDER_MOVES, ["pending", "paid"]),
    ("ticketing_payment", PAYMENT_MOVES, ["pending", "captured"]),
    ("ticketing_refund", REFUND_MOVES, ["pending"]),
]


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
        AddConstraintNotValid(model, models.CheckConstraint(condition=condition, name=name)),
        ValidateConstraint(model, name),
    ]


def several(model: str, field: str, to: str, reverse: str) -> migrations.AlterField:
    """From one row for each key to one that is not off (see the migration before)."""
    return migrations.AlterField(
        model,
        field,
        models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name=reverse, to=to),
    )


class Migration(migrations.Migration):
    dependencies = [("ticketing", "0003_one_that_is_not_off")]
    reviewed = {
        "narrows": "The words of the release before are among the new ones; none is refused.",
        "sql": "The guards of the states are replaced by ones that allow more moves.",
    }

    operations = [
        *status("hold", HOLD, "active"),
        *status("order", ORDER, "paid"),
        *status("payment", PAYMENT, "captured"),
        *status("refund", REFUND, "pending"),
        several("order", "hold", "ticketing.hold", "orders"),
        several("refund", "order", "ticketing.order", "refunds"),
        migrations.AlterField(
            "payment",
            "provider_id",
            models.CharField(blank=True, max_length=200, verbose_name="id at the provider"),
        ),
        *(
            state_guard(table, machine("status", moves), initial=initial)
            for table, moves, initial in GUARDS
        ),
    ]

"""The database keeps tenants apart, refuses impossible moves, and reads queries without accents."""

from django.contrib.postgres.operations import UnaccentExtension
from django.db import migrations

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import enable_rls, state_guard

_HOLD = machine(
    "status",
    {
        "active": {"converted", "expired", "released"},
        "released": set(),
        "expired": set(),
        "converted": set(),
    },
)
_ORDER = machine(
    "status",
    {
        "paid": {"refunded"},
        "refunded": set(),
    },
)
_PAYMENT = machine(
    "status",
    {
        "captured": {"refunded"},
        "refunded": set(),
    },
)
_REFUND = machine(
    "status",
    {
        "pending": {"refunded"},
        "refunded": set(),
    },
)
_TICKET = machine(
    "status",
    {
        "open": {"closed"},
        "closed": set(),
    },
)
_EMAIL = machine(
    "status",
    {
        "queued": {"failed", "sent"},
        "sent": set(),
        "failed": set(),
    },
)


class Migration(migrations.Migration):
    dependencies = [("ticketing", "0001_initial")]

    operations = [
        UnaccentExtension(),
        enable_rls(
            "ticketing_venue",
            "ticketing_section",
            "ticketing_seat",
            "ticketing_event",
            "ticketing_price",
            "ticketing_hold",
            "ticketing_seatclaim",
            "ticketing_order",
            "ticketing_payment",
            "ticketing_refund",
            "ticketing_supportticket",
            "ticketing_outboundemail",
        ),
        state_guard("ticketing_hold", _HOLD, initial=["active"]),
        state_guard("ticketing_order", _ORDER, initial=["paid"]),
        state_guard("ticketing_payment", _PAYMENT, initial=["captured"]),
        state_guard("ticketing_refund", _REFUND, initial=["pending"]),
        state_guard("ticketing_supportticket", _TICKET, initial=["open"]),
        state_guard("ticketing_outboundemail", _EMAIL, initial=["queued"]),
    ]

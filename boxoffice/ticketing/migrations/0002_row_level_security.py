"""The database keeps tenants apart, refuses impossible moves, and reads queries without accents."""

from django.contrib.postgres.operations import UnaccentExtension
from django.db import migrations

from boxoffice.tenancy.rls import enable_rls, state_guard
from boxoffice.ticketing.models import messages, sales


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
        state_guard("ticketing_hold", sales.HOLD, initial=["active"]),
        state_guard("ticketing_order", sales.ORDER, initial=["paid"]),
        state_guard("ticketing_payment", sales.PAYMENT, initial=["captured"]),
        state_guard("ticketing_refund", sales.REFUND, initial=["pending"]),
        state_guard("ticketing_supportticket", messages.TICKET, initial=["open"]),
        state_guard("ticketing_outboundemail", messages.EMAIL, initial=["queued"]),
    ]

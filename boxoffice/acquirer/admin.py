"""The demo provider's record in the console: for the operator alone, who runs the demo."""

from django.contrib import admin

from boxoffice.acquirer.models import Movement
from boxoffice.tenancy.console import VIEW, OperatorOnly


@admin.register(Movement)
class MovementAdmin(OperatorOnly):
    """Money of the demo that was moved or refused."""

    operator_may = frozenset({VIEW})
    list_display = ["created_at", "key", "charge_key", "amount_minor", "refusal"]
    search_fields = ["=key", "=charge_key"]
    ordering = ["-id"]

"""A local effect goes from proposed to its end in one move: the row is written once, not twice."""

from django.db import migrations

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import state_guard

_CALL = machine(
    "state",
    {
        "proposed": {"denied", "failed", "gated", "running", "succeeded"},
        "gated": {"denied", "failed", "running", "succeeded"},
        "running": {"failed", "succeeded", "unknown"},
        "unknown": {"failed", "succeeded"},
        "succeeded": {"compensated"},
        "denied": set(),
        "failed": set(),
        "compensated": set(),
    },
)


class Migration(migrations.Migration):
    dependencies = [("tools", "0002_guards")]

    operations = [state_guard("tools_toolcall", _CALL, initial=["proposed"])]

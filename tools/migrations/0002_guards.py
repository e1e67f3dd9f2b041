"""Rows of a tenant stay inside its scope, and a call moves only as its machine says."""

from django.db import migrations

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import enable_rls, state_guard

_CALL = machine(
    "state",
    {
        "proposed": {"denied", "gated", "running"},
        "gated": {"denied", "running"},
        "running": {"succeeded", "failed", "unknown"},
        "unknown": {"succeeded", "failed"},
        "succeeded": {"compensated"},
        "denied": set(),
        "failed": set(),
        "compensated": set(),
    },
)


class Migration(migrations.Migration):
    dependencies = [("tools", "0001_initial"), ("tenancy", "0002_row_level_security")]

    operations = [
        enable_rls("tools_toolcall"),
        state_guard("tools_toolcall", _CALL, initial=["proposed"]),
    ]

"""Rows of a tenant stay inside its scope, and a call moves only as its machine says."""

from django.db import migrations

from boxoffice.tenancy.rls import enable_rls, state_guard
from tools.models import CALL_MACHINE, CallState


class Migration(migrations.Migration):
    dependencies = [("tools", "0001_initial"), ("tenancy", "0002_row_level_security")]

    operations = [
        enable_rls("tools_toolcall"),
        state_guard("tools_toolcall", CALL_MACHINE, initial=[CallState.PROPOSED]),
    ]

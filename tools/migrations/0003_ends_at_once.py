"""A local effect goes from proposed to its end in one move: the row is written once, not twice."""

from django.db import migrations

from boxoffice.tenancy.rls import state_guard
from tools.models import CALL_MACHINE, CallState


class Migration(migrations.Migration):
    dependencies = [("tools", "0002_guards")]

    operations = [state_guard("tools_toolcall", CALL_MACHINE, initial=[CallState.PROPOSED])]

"""Finds what has ended since the last round. BRIN: a call that ends writes nothing into it."""

from django.contrib.postgres.indexes import BrinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tools", "0012_ended_for_good")]

    operations = [
        AddIndexConcurrently(
            "toolcall",
            BrinIndex(fields=["ended_position"], name="toolcall_ended", autosummarize=True),
        ),
    ]

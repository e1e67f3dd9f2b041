"""Indexes in the order in which calls come: PostgreSQL then fills their pages."""

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tools", "0014_saved_views")]

    operations = [
        AddIndexConcurrently(
            "toolcall",
            models.Index(fields=["tenant", "tool", "id"], name="toolcall_of_tool"),
        ),
        RemoveIndexConcurrently("toolcall", "toolcall_tenant_tool"),
        AddIndexConcurrently(
            "toolcall",
            models.Index(
                fields=["tenant", "shadow_version", "id"],
                condition=~models.Q(shadow_version=""),
                name="toolcall_shadowed",
            ),
        ),
        RemoveIndexConcurrently("toolcall", "toolcall_in_shadow"),
    ]

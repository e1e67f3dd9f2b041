"""The calls that a version in shadow was put to. Built while the site works."""

from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("tools", "0005_policy_verdicts")]

    operations = [
        ValidateConstraint("toolcall", "toolcall_shadow_verdict_known"),
        AddIndexConcurrently(
            "toolcall",
            models.Index(
                fields=["tenant", "shadow_version", "-id"],
                condition=~models.Q(shadow_version=""),
                name="toolcall_in_shadow",
            ),
        ),
    ]

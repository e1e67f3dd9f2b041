"""Which rule decided on a call, what the rules saw, and what a version in shadow would have said."""

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models

EFFECTS = {
    "allow": "allow",
    "confirm": "confirm by the fan",
    "approve": "approve by a reviewer",
    "deny": "deny",
}


def words(label: str, length: int, **options: object) -> models.CharField:
    return models.CharField(
        label, max_length=length, blank=True, default="", db_default="", **options
    )


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0004_policy_guards"),  # the guard asks for the version in force
        ("tools", "0004_remote_effects"),
    ]

    operations = [
        migrations.AddField("toolcall", "policy_rule", words("rule", 80)),
        migrations.AddField(
            "toolcall", "seen", models.JSONField("seen by the rules", null=True, blank=True)
        ),
        migrations.AddField("toolcall", "shadow_version", words("version in shadow", 32)),
        migrations.AddField(
            "toolcall",
            "shadow_verdict",
            words("verdict in shadow", 8, choices=list(EFFECTS.items())),
        ),
        migrations.AddField("toolcall", "shadow_rule", words("rule in shadow", 80)),
        AddConstraintNotValid(
            "toolcall",
            models.CheckConstraint(
                condition=models.Q(shadow_verdict__in=["", *EFFECTS]),
                name="toolcall_shadow_verdict_known",
            ),
        ),
    ]

"""Runs asked of their models again."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

import boxoffice.common.types
from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import enable_rls, state_guard

_REPLAY = machine(
    "state",
    {
        "queued": {"running", "failed"},
        "running": {"finished", "failed"},
        "finished": set(),
        "failed": set(),
    },
)


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0006_forks"),
        ("tenancy", "0002_row_level_security"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Replay",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=boxoffice.common.types.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("from_step", models.PositiveIntegerField(verbose_name="from step")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("queued", "queued"),
                            ("running", "running"),
                            ("finished", "finished"),
                            ("failed", "failed"),
                        ],
                        default="queued",
                        max_length=10,
                        verbose_name="state",
                    ),
                ),
                (
                    "outcome",
                    models.CharField(blank=True, default="", max_length=32, verbose_name="outcome"),
                ),
                ("turns", models.JSONField(default=list, verbose_name="turns")),
                ("error", models.JSONField(null=True, verbose_name="error")),
                (
                    "cost_micros",
                    models.PositiveBigIntegerField(
                        default=0, verbose_name="cost (millionths of a US dollar)"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created at")),
                ("started_at", models.DateTimeField(null=True, verbose_name="started at")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                (
                    "asked_by",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                        verbose_name="asked by",
                    ),
                ),
                (
                    "run",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="replays",
                        to="agents.run",
                    ),
                ),
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenancy.tenant",
                    ),
                ),
            ],
            options={
                "verbose_name": "replay",
                "verbose_name_plural": "replays",
                "indexes": [
                    models.Index(fields=["tenant", "run", "-id"], name="replay_tenant_run"),
                    models.Index(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=["created_at"],
                        name="replay_unfinished",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("state__in", ["queued", "running", "finished", "failed"])
                        ),
                        name="replay_state_known",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(("state__in", ["queued", "running"])),
                        fields=("run", "from_step"),
                        name="replay_one_at_a_time",
                    ),
                ],
            },
        ),
        enable_rls("agents_replay"),
        state_guard("agents_replay", _REPLAY, initial=["queued"]),
    ]

"""Effects of runs that are over, to be taken back: what is left to do is a row."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import boxoffice.common.types
from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import enable_rls, state_guard

_UNDO = machine(
    "state",
    {
        "due": {"undone", "nothing", "stuck"},
        "stuck": {"due", "settled"},
        "undone": set(),
        "nothing": set(),
        "settled": set(),
    },
)


class Migration(migrations.Migration):
    dependencies = [
        ("tenancy", "0002_row_level_security"),
        ("tools", "0006_calls_in_shadow"),
    ]

    operations = [
        migrations.CreateModel(
            name="Undo",
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
                ("run_ref", models.UUIDField(verbose_name="run")),
                ("conversation_ref", models.UUIDField(null=True, verbose_name="conversation")),
                (
                    "reason",
                    models.CharField(
                        choices=[
                            ("cancelled", "the fan stopped the answer"),
                            ("failed", "the answer failed"),
                        ],
                        max_length=16,
                        verbose_name="reason",
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("due", "to be undone"),
                            ("undone", "undone"),
                            ("nothing", "nothing to undo"),
                            ("stuck", "needs a person"),
                            ("settled", "settled by a person"),
                        ],
                        default="due",
                        max_length=8,
                        verbose_name="state",
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0, verbose_name="attempts")),
                ("next_attempt_at", models.DateTimeField(verbose_name="next attempt at")),
                ("error", models.JSONField(null=True, verbose_name="error")),
                ("note", models.TextField(blank=True, default="", verbose_name="note")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="created at")),
                ("finished_at", models.DateTimeField(null=True, verbose_name="finished at")),
                (
                    "call",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="undo",
                        to="tools.toolcall",
                        verbose_name="call",
                    ),
                ),
                (
                    "inverse",
                    models.OneToOneField(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="undoes",
                        to="tools.toolcall",
                        verbose_name="undoing call",
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
                "verbose_name": "effect to undo",
                "verbose_name_plural": "effects to undo",
                "constraints": [
                    models.CheckConstraint(
                        condition=Q(state__in=["due", "undone", "nothing", "stuck", "settled"]),
                        name="undo_state_known",
                    ),
                    models.CheckConstraint(
                        condition=Q(reason__in=["cancelled", "failed"]), name="undo_reason_known"
                    ),
                    models.CheckConstraint(
                        condition=~Q(state="undone") | Q(inverse__isnull=False),
                        name="undo_undone_by_a_call",
                    ),
                    models.CheckConstraint(
                        condition=~Q(state="settled") | ~Q(note=""), name="undo_settled_with_a_note"
                    ),
                ],
                "indexes": [
                    models.Index(fields=["tenant", "run_ref"], name="undo_tenant_run"),
                    models.Index(
                        fields=["tenant", "conversation_ref"], name="undo_tenant_conversation"
                    ),
                    models.Index(
                        fields=["next_attempt_at"], condition=Q(state="due"), name="undo_due"
                    ),
                ],
            },
        ),
        enable_rls("tools_undo"),
        state_guard("tools_undo", _UNDO, initial=["due"]),
    ]

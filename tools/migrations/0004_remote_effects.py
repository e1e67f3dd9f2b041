"""What another party was asked for on behalf of a call."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

import boxoffice.common.types
from boxoffice.tenancy.rls import enable_rls


class Migration(migrations.Migration):
    dependencies = [("tools", "0003_ends_at_once")]

    operations = [
        migrations.CreateModel(
            name="RemoteEffect",
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
                (
                    "tenant",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="tenancy.tenant",
                    ),
                ),
                (
                    "call",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="remote_effect",
                        to="tools.toolcall",
                    ),
                ),
                ("provider", models.CharField(max_length=100, verbose_name="asked")),
                ("request", models.JSONField(verbose_name="request")),
                ("sent_at", models.DateTimeField(verbose_name="sent at")),
                (
                    "rounds",
                    models.PositiveSmallIntegerField(default=0, verbose_name="times asked"),
                ),
                ("found", models.JSONField(null=True, verbose_name="last heard")),
                ("found_at", models.DateTimeField(null=True, verbose_name="last heard at")),
                ("due_at", models.DateTimeField(null=True, verbose_name="looked up again at")),
                ("unknown_at", models.DateTimeField(null=True, verbose_name="unknown since")),
                (
                    "settled_by",
                    models.CharField(
                        blank=True, default="", max_length=100, verbose_name="settled by"
                    ),
                ),
                (
                    "settled_note",
                    models.CharField(blank=True, default="", max_length=2000, verbose_name="note"),
                ),
                ("settled_at", models.DateTimeField(null=True, verbose_name="settled at")),
                (
                    "to_tell",
                    models.BooleanField(default=False, verbose_name="fan still to be told"),
                ),
            ],
            options={
                "verbose_name": "remote effect",
                "verbose_name_plural": "remote effects",
                "indexes": [
                    models.Index(fields=["tenant", "-id"], name="remoteeffect_tenant"),
                    models.Index(
                        fields=["due_at"],
                        condition=Q(due_at__isnull=False),
                        name="remoteeffect_due",
                    ),
                    models.Index(
                        fields=["id"], condition=Q(to_tell=True), name="remoteeffect_to_tell"
                    ),
                ],
            },
        ),
        enable_rls("tools_remoteeffect"),
    ]

"""An e-mail that is being sent says so, and one whose end nobody saw waits for a person."""

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import state_guard

STATES = [
    ("queued", "queued"),
    ("sending", "being sent"),
    ("sent", "sent"),
    ("failed", "failed"),
    ("unknown", "outcome unknown"),
]
MOVES = {
    "queued": {"sending", "sent", "failed"},
    "sending": {"sent", "queued", "failed", "unknown"},
    "unknown": {"sent", "queued"},
    "sent": set(),
    "failed": set(),
}


class Migration(migrations.Migration):
    dependencies = [("ticketing", "0004_pending_payments")]
    reviewed = {
        "narrows": "The words of the release before are among the new ones; none is refused.",
        "sql": "The guard of the states is replaced by one that allows more moves.",
        "locks": "The index has only e-mails that are being sent: at this moment there are none.",
    }

    operations = [
        migrations.AddField(
            "outboundemail",
            "sending_since",
            models.DateTimeField(blank=True, null=True, verbose_name="being sent since"),
        ),
        migrations.RemoveConstraint("outboundemail", "email_status_known"),
        migrations.AlterField(
            "outboundemail",
            "status",
            models.CharField(
                choices=STATES, default="queued", max_length=16, verbose_name="status"
            ),
        ),
        AddConstraintNotValid(
            "outboundemail",
            models.CheckConstraint(
                condition=Q(status__in=[value for value, _ in STATES]), name="email_status_known"
            ),
        ),
        ValidateConstraint("outboundemail", "email_status_known"),
        migrations.AddIndex(
            "outboundemail",
            models.Index(
                fields=["sending_since"], condition=Q(status="sending"), name="email_sending"
            ),
        ),
        state_guard("ticketing_outboundemail", machine("status", MOVES), initial=["queued"]),
    ]

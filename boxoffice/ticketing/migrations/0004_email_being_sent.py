"""An e-mail that is being sent says so, and one whose end nobody saw waits for a person."""

from django.db import migrations, models
from django.db.models import Q

from boxoffice.tenancy.rls import state_guard
from boxoffice.ticketing.models import messages

STATES = [
    ("queued", "queued"),
    ("sending", "being sent"),
    ("sent", "sent"),
    ("failed", "failed"),
    ("unknown", "outcome unknown"),
]


class Migration(migrations.Migration):
    dependencies = [("ticketing", "0003_pending_payments")]

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
        migrations.AddConstraint(
            "outboundemail",
            models.CheckConstraint(
                condition=Q(status__in=[value for value, _ in STATES]), name="email_status_known"
            ),
        ),
        migrations.AddIndex(
            "outboundemail",
            models.Index(
                fields=["sending_since"], condition=Q(status="sending"), name="email_sending"
            ),
        ),
        state_guard("ticketing_outboundemail", messages.EMAIL, initial=["queued"]),
    ]

"""The demo's provider keeps a record now: it gets to know the charges from before, to refund them."""

from django.db import migrations

FORWARD = """
INSERT INTO acquirer_movement (key, charge_key, amount_minor, refusal, created_at)
SELECT reference, '', amount_minor, '', created_at FROM ticketing_payment WHERE provider = 'demo'
ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    dependencies = [("ticketing", "0005_email_being_sent"), ("acquirer", "0001_initial")]
    reviewed = {"sql": "It reads payments, and writes to a table that only new code knows."}

    operations = [migrations.RunSQL(FORWARD, migrations.RunSQL.noop)]

"""Tenant isolation, the moves of a run, and steps that only its leaseholder can append."""

from django.db import migrations

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import append_only, enable_rls, state_guard

_RUN = machine(
    "state",
    {
        "queued": {"running", "cancelled"},
        "running": {"queued", "waiting", "succeeded", "partial", "failed", "cancelled"},
        "waiting": {"queued", "cancelled"},
        "succeeded": set(),
        "partial": set(),
        "failed": set(),
        "cancelled": set(),
    },
)

_FENCE = """
CREATE FUNCTION agents_step_fence() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.epoch IS DISTINCT FROM (SELECT lease_epoch FROM agents_run WHERE id = NEW.run_id) THEN
    RAISE EXCEPTION 'run % has been claimed anew: epoch % is over', NEW.run_id, NEW.epoch
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER agents_step_fence BEFORE INSERT ON agents_step
  FOR EACH ROW EXECUTE FUNCTION agents_step_fence();
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0001_initial"), ("tenancy", "0002_row_level_security")]

    operations = [
        enable_rls("agents_conversation", "agents_message", "agents_run", "agents_step"),
        append_only("agents_step"),
        state_guard("agents_run", _RUN, initial=["queued"]),
        migrations.RunSQL(
            _FENCE,
            "DROP TRIGGER agents_step_fence ON agents_step; DROP FUNCTION agents_step_fence();",
        ),
    ]

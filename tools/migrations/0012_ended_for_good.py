"""What a call came to is kept for good: stamped for the audit log, and refused any change."""

from django.db import migrations, models

# ``ended_position`` names the transaction in which a call ended, as positions of audit records do,
# so that what is sealed can be told from what may still be joined by a late commit. Nothing of an
# ended call changes any more, but that its effect is taken back.
_GUARD = """
CREATE FUNCTION tools_toolcall_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    NEW.ended_position := NULL;
    RETURN NEW;
  END IF;
  IF OLD.state IN ('denied', 'succeeded', 'failed', 'compensated') THEN
    IF TG_OP = 'DELETE' OR to_jsonb(NEW) - 'state' IS DISTINCT FROM to_jsonb(OLD) - 'state' THEN
      RAISE EXCEPTION 'a call that has ended is kept as it is'
        USING ERRCODE = 'integrity_constraint_violation';
    END IF;
  ELSIF TG_OP = 'DELETE' THEN
    RAISE EXCEPTION 'a proposed call is never removed'
      USING ERRCODE = 'integrity_constraint_violation';
  ELSIF NEW.state IN ('denied', 'succeeded', 'failed') THEN
    NEW.ended_position := audit_position(pg_current_xact_id());
  ELSE
    NEW.ended_position := NULL;
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER tools_toolcall_ended BEFORE INSERT OR UPDATE OR DELETE ON tools_toolcall
  FOR EACH ROW EXECUTE FUNCTION tools_toolcall_ended();
"""
_NO_GUARD = """
DROP TRIGGER tools_toolcall_ended ON tools_toolcall;
DROP FUNCTION tools_toolcall_ended();
"""


class Migration(migrations.Migration):
    reviewed = {
        "sql": "The release before changes no call that has ended, and names no position.",
    }
    dependencies = [("tools", "0011_governed_tools"), ("audit", "0002_guards")]

    operations = [
        migrations.AddField(
            "toolcall",
            "ended_position",
            models.BigIntegerField(editable=False, null=True),
        ),
        migrations.RunSQL(_GUARD, _NO_GUARD),
    ]

"""What the database refuses about versions of rules, whoever asks."""

from django.db import migrations

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import enable_rls, state_guard

_STATES = machine(
    "state",
    {
        "draft": {"shadow", "active", "retired"},
        "shadow": {"active", "retired"},
        "active": {"retired"},
        "retired": set(),
    },
)

# Verdicts name the version by which they were given: it has to stay what it was.
_VERSIONS = """
CREATE FUNCTION approvals_policy_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.tenant_id, NEW.number, NEW.created_at) IS DISTINCT FROM
    (OLD.tenant_id, OLD.number, OLD.created_at) THEN
    RAISE EXCEPTION 'a policy version keeps its number' USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state <> 'draft' AND (NEW.source, NEW.rules, NEW.note, NEW.author_id, NEW.copied_from)
    IS DISTINCT FROM (OLD.source, OLD.rules, OLD.note, OLD.author_id, OLD.copied_from) THEN
    RAISE EXCEPTION 'policy version % is no draft: its rules never change', OLD.number
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_policy_guard BEFORE UPDATE ON approvals_policyversion
  FOR EACH ROW EXECUTE FUNCTION approvals_policy_guard();
CREATE TRIGGER approvals_policy_kept BEFORE DELETE ON approvals_policyversion
  FOR EACH ROW EXECUTE FUNCTION boxoffice_append_only();
"""
_NO_VERSIONS = """
DROP TRIGGER approvals_policy_kept ON approvals_policyversion;
DROP TRIGGER approvals_policy_guard ON approvals_policyversion;
DROP FUNCTION approvals_policy_guard();
"""


class Migration(migrations.Migration):
    dependencies = [("approvals", "0003_policy_versions")]
    reviewed = {"sql": "It guards a table that only new code knows."}

    operations = [
        enable_rls("approvals_policyversion"),
        state_guard("approvals_policyversion", _STATES, initial=["draft"]),
        migrations.RunSQL(_VERSIONS, _NO_VERSIONS),
    ]

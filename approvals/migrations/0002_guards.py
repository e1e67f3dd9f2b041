"""What the database refuses about approvals, whoever asks."""

from django.db import migrations

from boxoffice.common.transitions import machine
from boxoffice.tenancy.rls import append_only, enable_rls, state_guard

_REQUEST = machine(
    "state",
    {
        "pending": {"approved", "denied", "expired", "withdrawn"},
        "approved": {"executed", "failed", "unknown"},
        "executed": set(),
        "failed": set(),
        "unknown": set(),
        "denied": set(),
        "expired": set(),
        "withdrawn": set(),
    },
)

# Four eyes: the person for whom an action was asked never approves it at a reviewer's gate, not
# under a second account with the same address either; a fan's gate opens for that fan alone.
_DECISIONS = """
CREATE FUNCTION approvals_decision_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  asked record;
BEGIN
  SELECT r.state, r.gate, r.requested_for_id, r.tenant_id INTO asked
    FROM approvals_approvalrequest r WHERE r.id = NEW.request_id FOR UPDATE;
  IF NOT FOUND OR asked.tenant_id <> NEW.tenant_id THEN
    RAISE EXCEPTION 'no such approval request' USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF asked.state <> 'pending' THEN
    RAISE EXCEPTION 'approval request is %, not pending', asked.state
      USING ERRCODE = 'check_violation';
  END IF;
  IF asked.gate = 'reviewer' AND NEW.verb = 'approve' AND (
    NEW.user_id = asked.requested_for_id OR EXISTS (
      SELECT FROM tenancy_user one JOIN tenancy_user two ON lower(one.email) = lower(two.email)
      WHERE one.id = NEW.user_id AND two.id = asked.requested_for_id AND one.email <> ''
    )
  ) THEN
    RAISE EXCEPTION 'four eyes: nobody approves what was asked for them'
      USING ERRCODE = 'check_violation';
  END IF;
  IF asked.gate = 'fan' AND NEW.verb IN ('approve', 'deny')
    AND NEW.user_id IS DISTINCT FROM asked.requested_for_id THEN
    RAISE EXCEPTION 'only the fan confirms at a fan''s gate' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_decision_guard BEFORE INSERT ON approvals_decision
  FOR EACH ROW EXECUTE FUNCTION approvals_decision_guard();
"""
_NO_DECISIONS = """
DROP TRIGGER approvals_decision_guard ON approvals_decision;
DROP FUNCTION approvals_decision_guard();
"""

# A request leaves `pending` only with the decisions that say so, and what it describes stays.
_REQUESTS = """
CREATE FUNCTION approvals_request_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  needed_verb text := CASE NEW.state WHEN 'approved' THEN 'approve' WHEN 'denied' THEN 'deny'
    WHEN 'withdrawn' THEN 'withdraw' WHEN 'expired' THEN 'expire' END;
  needed integer := CASE NEW.state WHEN 'approved' THEN NEW.quorum ELSE 1 END;
BEGIN
  IF (NEW.tenant_id, NEW.action, NEW.arguments, NEW.gate, NEW.quorum, NEW.binding_hash,
      NEW.reference, NEW.created_at)
    IS DISTINCT FROM (OLD.tenant_id, OLD.action, OLD.arguments, OLD.gate, OLD.quorum,
      OLD.binding_hash, OLD.reference, OLD.created_at)
    OR NEW.requested_for_id IS DISTINCT FROM OLD.requested_for_id
    OR NEW.preview IS DISTINCT FROM OLD.preview THEN
    RAISE EXCEPTION 'what an approval request describes never changes'
      USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.edited_arguments IS DISTINCT FROM OLD.edited_arguments AND OLD.state <> 'pending' THEN
    RAISE EXCEPTION 'arguments are edited only before the decision'
      USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state = 'pending' AND NEW.state <> 'pending' AND (
    SELECT count(*) FROM approvals_decision d WHERE d.request_id = NEW.id AND d.verb = needed_verb
  ) < needed THEN
    RAISE EXCEPTION '% needs % decision(s) to %', NEW.state, needed, needed_verb
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER approvals_request_guard BEFORE UPDATE ON approvals_approvalrequest
  FOR EACH ROW EXECUTE FUNCTION approvals_request_guard();
CREATE TRIGGER approvals_request_kept BEFORE DELETE ON approvals_approvalrequest
  FOR EACH ROW EXECUTE FUNCTION boxoffice_append_only();
"""
_NO_REQUESTS = """
DROP TRIGGER approvals_request_kept ON approvals_approvalrequest;
DROP TRIGGER approvals_request_guard ON approvals_approvalrequest;
DROP FUNCTION approvals_request_guard();
"""


class Migration(migrations.Migration):
    dependencies = [
        ("approvals", "0001_initial"),
        ("tenancy", "0002_row_level_security"),
    ]

    operations = [
        append_only("approvals_decision"),
        enable_rls("approvals_approvalrequest", "approvals_decision"),
        state_guard("approvals_approvalrequest", _REQUEST, initial=["pending"]),
        migrations.RunSQL(_DECISIONS, _NO_DECISIONS),
        migrations.RunSQL(_REQUESTS, _NO_REQUESTS),
    ]

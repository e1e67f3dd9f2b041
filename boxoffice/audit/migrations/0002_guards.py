"""What the database holds about the audit log: positions, append-only rows, tenants apart."""

from django.db import migrations

from boxoffice.tenancy.rls import append_only, enable_rls

# A position names the transaction that wrote a record. Transaction numbers start again when a
# database is restored into another cluster, so the cluster's turn stands above them: positions
# only ever rise, and "everything below the oldest open transaction" is complete for good.
_POSITIONS = """
CREATE TABLE audit_cluster (
  system_identifier bigint PRIMARY KEY,
  turn smallint NOT NULL UNIQUE
);
CREATE FUNCTION audit_position(xact xid8) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  cluster bigint := (SELECT system_identifier FROM pg_control_system());
  found_turn bigint;
BEGIN
  SELECT turn INTO found_turn FROM audit_cluster WHERE system_identifier = cluster;
  IF found_turn IS NULL THEN
    LOCK TABLE audit_cluster IN SHARE ROW EXCLUSIVE MODE;
    INSERT INTO audit_cluster
      SELECT cluster, coalesce(max(turn), 0) + 1 FROM audit_cluster
      ON CONFLICT (system_identifier) DO NOTHING;
    SELECT turn INTO found_turn FROM audit_cluster WHERE system_identifier = cluster;
  END IF;
  RETURN found_turn * 281474976710656 + xact::text::bigint;  -- 2^48 transactions a cluster
END $$;
CREATE FUNCTION audit_horizon() RETURNS bigint LANGUAGE sql AS
  'SELECT audit_position(pg_snapshot_xmin(pg_current_snapshot()))';
CREATE FUNCTION audit_stamp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.position := audit_position(pg_current_xact_id());
  RETURN NEW;
END $$;
CREATE TRIGGER audit_stamp BEFORE INSERT ON audit_auditrecord
  FOR EACH ROW EXECUTE FUNCTION audit_stamp();
SELECT audit_horizon();
"""
_NO_POSITIONS = """
DROP TRIGGER audit_stamp ON audit_auditrecord;
DROP FUNCTION audit_stamp();
DROP FUNCTION audit_horizon();
DROP FUNCTION audit_position(xid8);
DROP TABLE audit_cluster;
"""


class Migration(migrations.Migration):
    dependencies = [
        ("audit", "0001_initial"),
        ("tenancy", "0002_row_level_security"),
    ]

    operations = [
        migrations.RunSQL(_POSITIONS, _NO_POSITIONS),
        append_only("audit_auditrecord", "audit_auditseal", "audit_cluster"),
        enable_rls("audit_auditrecord", "audit_auditseal"),
    ]

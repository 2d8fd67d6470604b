"""Triggers for what a constraint cannot say: legal transitions, frozen identity, history that only grows.

ENABLE ALWAYS, so that a replica session cannot switch them off. DELETE and TRUNCATE pass for the tables' owner alone,
and only while `receipts.purge` is on in the transaction: a retention tool's, and a test suite's flush.
"""

from django.db import migrations

GUARDS = """
CREATE FUNCTION receipts_refuse_removal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_setting('receipts.purge', true) = 'on'
     AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
    RETURN CASE WHEN TG_LEVEL = 'ROW' THEN OLD END;
  END IF;
  RAISE EXCEPTION 'history is never removed: % on %', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'history_is_never_removed';
END $$;

CREATE FUNCTION receipts_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'history is never edited: % on %', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'history_is_never_edited';
END $$;

CREATE FUNCTION receipts_guard_transition() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  settles boolean := OLD.status = 'pending' AND NEW.status IN ('applied', 'failed') AND NEW.attempt = OLD.attempt;
  reopens boolean := OLD.status = 'failed' AND OLD.retryable AND NEW.status = 'pending' AND NEW.attempt = OLD.attempt + 1;
  begins boolean := OLD.status = 'pending' AND NEW.status = 'pending' AND NEW.attempt = OLD.attempt
                    AND OLD.started_at IS NULL AND NEW.started_at IS NOT NULL;
BEGIN
  IF (NEW.id, NEW.user_id, NEW.idempotency_key, NEW.request_fingerprint, NEW.run_id, NEW.tool_name, NEW.contract_version,
      NEW.contract_sha256, NEW.effect, NEW.subject, NEW.input_hash, NEW.created_at, NEW.root_id)
     IS DISTINCT FROM
     (OLD.id, OLD.user_id, OLD.idempotency_key, OLD.request_fingerprint, OLD.run_id, OLD.tool_name, OLD.contract_version,
      OLD.contract_sha256, OLD.effect, OLD.subject, OLD.input_hash, OLD.created_at, OLD.root_id)
     OR (NEW.on_behalf_of, NEW.replay_of, NEW.replay_no, NEW.replay_reason)
        IS DISTINCT FROM (OLD.on_behalf_of, OLD.replay_of, OLD.replay_no, OLD.replay_reason) THEN
    RAISE EXCEPTION 'identity of receipt % is frozen', OLD.id
      USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'receipt_identity_is_frozen';
  END IF;
  IF settles OR reopens OR begins THEN
    RETURN NEW;
  END IF;
  RAISE EXCEPTION 'receipt % cannot go from % (attempt %) to % (attempt %)',
                  OLD.id, OLD.status, OLD.attempt, NEW.status, NEW.attempt
    USING ERRCODE = 'insufficient_privilege', CONSTRAINT = 'receipt_transition_is_legal';
END $$;

CREATE FUNCTION receipts_refuse_late_stamp() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'the deadline passed while the change was made'
    USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'stamp_comes_before_the_deadline';
END $$;

CREATE TRIGGER guard_transition BEFORE UPDATE ON tool_receipts FOR EACH ROW EXECUTE FUNCTION receipts_guard_transition();
CREATE TRIGGER refuse_change BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION receipts_refuse_change();
CREATE TRIGGER refuse_change BEFORE UPDATE ON audit_events FOR EACH ROW EXECUTE FUNCTION receipts_refuse_change();
"""

REMOVAL = """
CREATE TRIGGER refuse_delete BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION receipts_refuse_removal();
CREATE TRIGGER refuse_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION receipts_refuse_removal();
ALTER TABLE {table} ENABLE ALWAYS TRIGGER refuse_delete;
ALTER TABLE {table} ENABLE ALWAYS TRIGGER refuse_truncate;
"""

HISTORY = ("tool_receipts", "attempts", "audit_events", "runs")

ALWAYS = """
ALTER TABLE tool_receipts ENABLE ALWAYS TRIGGER guard_transition;
ALTER TABLE attempts ENABLE ALWAYS TRIGGER refuse_change;
ALTER TABLE audit_events ENABLE ALWAYS TRIGGER refuse_change;
"""

UNDO = """
DROP FUNCTION receipts_refuse_late_stamp();
DROP FUNCTION receipts_guard_transition() CASCADE;
DROP FUNCTION receipts_refuse_change() CASCADE;
DROP FUNCTION receipts_refuse_removal() CASCADE;
"""


class Migration(migrations.Migration):
    dependencies = [("receipts", "0001_initial")]
    operations = [
        migrations.RunSQL(GUARDS + "".join(REMOVAL.format(table=table) for table in HISTORY) + ALWAYS, UNDO),
    ]

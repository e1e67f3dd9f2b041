"""Migration operations for what the database itself holds about tenant-owned tables.

Each names its tables in ``hints``: ``upgrades`` lets them be used on new tables without a review.
"""

from collections.abc import Iterable

from django.db import migrations

from boxoffice.common.transitions import Machine

_POLICY = (
    "CASE current_setting('boxoffice.tenant', true) WHEN '*' THEN true WHEN '' THEN false "
    "ELSE {column} = ANY (string_to_array(current_setting('boxoffice.tenant', true), ',')::uuid[])"
    " END"
)


def enable_rls(*tables: str, column: str = "tenant_id") -> migrations.RunSQL:
    """Row-level security by tenant; FORCE, so that even the owner sees no row without a scope."""
    policy = _POLICY.format(column=column)
    forward = "\n".join(
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;"
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY;"
        f"CREATE POLICY tenant_isolation ON {table} USING ({policy}) WITH CHECK ({policy});"
        for table in tables
    )
    backward = "\n".join(
        f"DROP POLICY tenant_isolation ON {table};"
        f"ALTER TABLE {table} NO FORCE ROW LEVEL SECURITY;"
        f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;"
        for table in tables
    )
    return migrations.RunSQL(forward, backward, hints={"tables": tables})


def append_only(*tables: str) -> migrations.RunSQL:
    """Rows are never changed or removed, whoever asks: a trigger refuses it."""
    forward = """
    CREATE OR REPLACE FUNCTION boxoffice_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'rows of % are append-only', TG_TABLE_NAME
        USING ERRCODE = 'integrity_constraint_violation';
    END $$;
    """ + "\n".join(
        f"CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table} "
        "FOR EACH ROW EXECUTE FUNCTION boxoffice_append_only();"
        for table in tables
    )
    backward = "\n".join(f"DROP TRIGGER append_only ON {table};" for table in tables)
    return migrations.RunSQL(forward, backward, hints={"tables": tables})


def state_guard(table: str, machine: Machine, *, initial: Iterable[str]) -> migrations.RunSQL:
    """The database refuses any move that ``machine`` does not have, and any other first state.

    A migration writes the machine out: what it did once must not change with the code.
    """
    column = machine.field
    moves = ", ".join(
        f"'{source}>{target}'"
        for source, targets in sorted(machine.moves.items())
        for target in sorted(targets)
    )
    firsts = ", ".join(f"'{state}'" for state in initial)
    name = f"{table}_{column}_guard"
    forward = f"""
    CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF TG_OP = 'INSERT' THEN
        IF NEW.{column} NOT IN ({firsts}) THEN
          RAISE EXCEPTION '{table} cannot begin as %', NEW.{column}
            USING ERRCODE = 'check_violation';
        END IF;
      ELSIF NEW.{column} IS DISTINCT FROM OLD.{column}
        AND OLD.{column} || '>' || NEW.{column} NOT IN ({moves}) THEN
        RAISE EXCEPTION '{table} cannot go from % to %', OLD.{column}, NEW.{column}
          USING ERRCODE = 'check_violation';
      END IF;
      RETURN NEW;
    END $$;
    DROP TRIGGER IF EXISTS {name} ON {table};
    CREATE TRIGGER {name} BEFORE INSERT OR UPDATE ON {table}
      FOR EACH ROW EXECUTE FUNCTION {name}();
    """
    backward = f"DROP TRIGGER {name} ON {table}; DROP FUNCTION {name}();"
    return migrations.RunSQL(forward, backward, hints={"tables": (table,)})

"""Working as the owner of the tables: migrations, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connections

from boxoffice.tenancy.postgres.base import APP_ROLE
from boxoffice.tenancy.scope import operator_scope

_GRANTS = f"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{APP_ROLE}') THEN
    CREATE ROLE {APP_ROLE} NOLOGIN NOSUPERUSER NOBYPASSRLS;
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;  -- made by a neighbour meanwhile
END $$;
DO $$ BEGIN
  EXECUTE format('GRANT {APP_ROLE} TO %I', current_user);
EXCEPTION WHEN insufficient_privilege THEN NULL;  -- an administrator has granted it already
END $$;
GRANT USAGE ON SCHEMA public TO {APP_ROLE};
ALTER DEFAULT PRIVILEGES IN SCHEMA public
  GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {APP_ROLE};
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {APP_ROLE};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {APP_ROLE};
GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {APP_ROLE};
"""


@contextmanager
def owner_connection(alias: str = "default") -> Iterator[None]:
    """Connect as the login role instead of the application role, and see all tenants.

    Only for a process that does nothing else meanwhile: the pool is closed before and after.
    """
    connection = connections[alias]
    options = connection.settings_dict["OPTIONS"]
    role, pool = options.get("assume_role"), options.get("pool")

    def switch(role: str | None, pool: object) -> None:
        connection.close()
        connection.close_pool()  # type: ignore[attr-defined]
        for key, value in (("assume_role", role), ("pool", pool)):
            options.pop(key, None)
            if value is not None:
                options[key] = value

    switch(None, None)
    try:
        with operator_scope("owner of the tables"):
            yield
    finally:
        switch(role, pool)


def grant_application_role(alias: str = "default") -> None:
    """Create the application role if it is missing, and let it use (never own) the tables."""
    with connections[alias].cursor() as cursor:
        cursor.execute(_GRANTS)

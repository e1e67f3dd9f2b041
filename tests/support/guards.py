"""A way round the database's own guards, for tests that play the past or an attacker."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connection


@contextmanager
def unguarded(*tables: str) -> Iterator[psycopg.Connection[Any]]:
    """The owner of the tables, who has switched their triggers off for everybody meanwhile."""
    options = connection.get_connection_params()
    options = {k: v for k, v in options.items() if k in {"dbname", "user", "host", "port"}}
    with psycopg.connect(**options, autocommit=True) as login:
        login.execute("SELECT set_config('boxoffice.tenant', '*', false)")
        for table in tables:
            login.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        try:
            yield login
        finally:
            for table in tables:
                login.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")

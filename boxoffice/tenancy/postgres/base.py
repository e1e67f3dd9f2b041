"""PostgreSQL backend that tells the server the open tenant scope before each query.

One more statement is sent only when the scope differs from what this connection was told last,
so that work inside one scope costs one ``set_config`` per checkout from the pool.
"""

from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg import sql
from psycopg.pq import TransactionStatus

from boxoffice.tenancy.scope import current_scope

APP_ROLE = "boxoffice_app"


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's PostgreSQL wrapper with ``boxoffice.tenant`` kept equal to the open scope."""

    def _cursor(self, name: str | None = None) -> Any:
        self.ensure_connection()
        self._tell_scope()
        return super()._cursor(name)  # type: ignore[misc]

    def _configure_role(self, connection: psycopg.Connection[Any]) -> bool:
        # Django's own composes the statement through a cursor of this wrapper, which inside the
        # pool's thread waits for the very connection that is being configured.
        role = self.settings_dict["OPTIONS"].get("assume_role")
        if not role:
            return False
        connection.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
        return True

    def _tell_scope(self) -> None:
        connection: psycopg.Connection[Any] = self.connection
        scope = current_scope()
        wanted = "" if scope is None else scope.setting
        if getattr(connection, "boxoffice_told", None) == wanted:
            return
        if connection.info.transaction_status == TransactionStatus.INERROR:
            return
        connection.execute("SELECT set_config('boxoffice.tenant', %s, false)", [wanted])
        connection.boxoffice_told = wanted  # type: ignore[attr-defined]

    def _close(self) -> Any:
        self._forget_scope()
        return super()._close()  # type: ignore[misc]

    def _forget_scope(self) -> None:
        """After a rollback the server holds the value from before the transaction."""
        if self.connection is not None:
            self.connection.boxoffice_told = None

    def _rollback(self) -> None:
        self._forget_scope()
        super()._rollback()  # type: ignore[misc]

    def _savepoint_rollback(self, sid: str) -> None:
        super()._savepoint_rollback(sid)  # type: ignore[misc]
        self._forget_scope()

"""PostgreSQL backend that keeps the server in the open tenant scope, in few round trips.

What has no answer (BEGIN, savepoints, the scope) is sent together with the next statement, and a
connection that comes back from the pool keeps the scope that its server knows of.
"""

import time
from typing import Any

import psycopg
from django.db.backends.postgresql import base
from psycopg import sql
from psycopg.pq import ConnStatus, TransactionStatus

from boxoffice.common import clock
from boxoffice.tenancy.postgres.preface import Preface, PrefacedCursor, preface_of
from boxoffice.tenancy.scope import current_scope

APP_ROLE = "boxoffice_app"
BEGIN = "BEGIN"
# A connection that has been in the pool for less is trusted, unless the server has hung up.
TRUSTED_SECONDS = 10.0
# Whoever does nothing in an open transaction for longer is halted or lost, and what it has locked
# is given back: nobody waits longer for a dead neighbour.
IDLE_SECONDS = 5


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's PostgreSQL wrapper with ``boxoffice.tenant`` kept equal to the open scope.

    The psycopg connection is in autocommit mode throughout; transactions are begun by name.
    """

    @property
    def pool(self) -> Any:
        """Django's pool, which asks a connection how it is only after a pause."""
        options = self.settings_dict["OPTIONS"].get("pool")
        if isinstance(options, dict):
            options.setdefault("check", check_connection)
        return super().pool

    def get_connection_params(self) -> dict[str, Any]:
        """Django's, with our cursors."""
        params: dict[str, Any] = super().get_connection_params()
        return params | {"cursor_factory": PrefacedCursor}

    def create_cursor(self, name: str | None = None) -> Any:
        """A cursor; a named one lives as long as Django's transaction, if there is one."""
        if name is None or self.autocommit:
            return super().create_cursor(name)
        return base.ServerSideCursor(  # type: ignore[call-arg]
            self.connection, name=name, scrollable=False
        )

    def limit_statements(self, seconds: float) -> None:
        """Let no statement of the open transaction, from the next one on, take longer."""
        if not self.in_atomic_block:
            raise psycopg.ProgrammingError("A limit holds until the end of a transaction.")
        self._preface.statements.append(f"SET LOCAL statement_timeout = {int(seconds * 1000)}")

    def allow_pauses(self) -> None:
        """Let the open transaction rest: for batch work that computes between its statements."""
        if not self.in_atomic_block:
            raise psycopg.ProgrammingError("Leave to rest holds until the end of a transaction.")
        self._preface.statements.append("SET LOCAL idle_in_transaction_session_timeout = 0")

    def forbid_writes(self) -> None:
        """Let the open transaction, from the next statement on, write nothing."""
        if not self.in_atomic_block:
            raise psycopg.ProgrammingError("A ban on writing holds until the end of a transaction.")
        self._preface.statements.append("SET TRANSACTION READ ONLY")

    @property
    def _preface(self) -> Preface:
        return preface_of(self.connection)

    def _cursor(self, name: str | None = None) -> Any:
        self.ensure_connection()
        scope = current_scope()
        self._preface.wanted = "" if scope is None else scope.setting
        if name is not None:
            with self.wrap_database_errors, self.connection.cursor() as cursor:
                cursor.say()
        return super()._cursor(name)  # type: ignore[misc]

    def _configure_role(self, connection: psycopg.Connection[Any]) -> bool:
        # Django's own composes the statement through a cursor of this wrapper, which inside the
        # pool's thread waits for the very connection that is being configured.
        role = self.settings_dict["OPTIONS"].get("assume_role")
        if not role:
            return False
        connection.execute(
            sql.SQL("SET ROLE {}; SET idle_in_transaction_session_timeout = {}").format(
                sql.Identifier(role), sql.Literal(IDLE_SECONDS * 1000)
            )
        )
        _compare_clocks(connection)
        return True

    def _set_autocommit(self, autocommit: bool) -> None:
        if not self.connection.autocommit:
            with self.wrap_database_errors:
                self.connection.autocommit = True
        if autocommit:
            self._preface.drop()
        elif self._status == TransactionStatus.IDLE and not self._preface.statements:
            self._preface.statements.append(BEGIN)

    def _commit(self) -> None:
        if self.connection is not None:
            self._preface.drop()
        super()._commit()  # type: ignore[misc]

    def _rollback(self) -> None:
        self._end_without_commit()
        super()._rollback()  # type: ignore[misc]

    def _close(self) -> Any:
        self._end_without_commit()
        if self.connection is not None:
            self.connection.boxoffice_idle_since = time.monotonic()
        return super()._close()  # type: ignore[misc]

    def _end_without_commit(self) -> None:
        if self.connection is None:
            return
        self._preface.drop()
        if self._status != TransactionStatus.IDLE:
            self._preface.forget()

    def _savepoint(self, sid: str) -> None:
        self._preface.statements.append(self.ops.savepoint_create_sql(sid))

    def _savepoint_commit(self, sid: str) -> None:
        if self._preface.unsay(self.ops.savepoint_create_sql(sid)):
            return
        if self._status == TransactionStatus.INERROR:
            # Raises, as it should: said later, nobody would learn that the work is lost.
            super()._savepoint_commit(sid)  # type: ignore[misc]
        self._preface.statements.append(self.ops.savepoint_commit_sql(sid))

    def _savepoint_rollback(self, sid: str) -> None:
        if self._preface.unsay_after(self.ops.savepoint_create_sql(sid)):
            return
        self._preface.drop()
        super()._savepoint_rollback(sid)  # type: ignore[misc]
        self._preface.forget()

    @property
    def _status(self) -> TransactionStatus:
        return TransactionStatus(self.connection.pgconn.transaction_status)


def check_connection(connection: psycopg.Connection[Any]) -> None:
    """Raise if a pooled connection is dead; asks the server only after a pause.

    Nothing comes from the server of an idle connection, except that it ends: first why, then the
    end itself. Reading twice finds both, and waits for neither.
    """
    idle_since: float | None = getattr(connection, "boxoffice_idle_since", None)
    if idle_since is not None and time.monotonic() - idle_since < TRUSTED_SECONDS:
        connection.pgconn.consume_input()
        connection.pgconn.consume_input()
        if connection.pgconn.status == ConnStatus.OK:
            return
    _compare_clocks(connection)


def _compare_clocks(connection: psycopg.Connection[Any]) -> None:
    ((moment,),) = connection.execute("SELECT clock_timestamp()").fetchall()
    clock.agree_with(moment)

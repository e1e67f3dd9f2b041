"""What the server must be told travels with the next statement, instead of by itself.

BEGIN, SAVEPOINT, RELEASE, SET LOCAL and the tenant scope have no answer to wait for. Sent alone,
each is a round trip; a short transaction would spend most of its time on them.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.backends.postgresql import base
from psycopg import ClientCursor, Connection
from psycopg.pq import TransactionStatus

if TYPE_CHECKING:
    _Cursor = ClientCursor[Any]
else:
    _Cursor = base.Cursor  # the same, with ``callproc``

_TELL = "SELECT set_config('boxoffice.tenant'"


@dataclass(slots=True)
class Preface:
    """What one connection has still to say.

    ``wanted`` is the tenant scope to be in force, ``told`` the one that the server knows of
    (``None``: not known). ``statements`` go before the next statement of the open transaction.
    """

    statements: list[str] = field(default_factory=list)
    wanted: str = ""
    told: str | None = None

    def take(self) -> list[str]:
        """All that is to be said now, in order; it counts as said."""
        said, self.statements = self.statements, []
        if self.told != self.wanted:
            said.append(f"{_TELL}, '{self.wanted}', false)")
            self.told = self.wanted
        return said

    def put_back(self, said: list[str]) -> None:
        """What was taken has not reached the server, or was not understood by it."""
        self.statements = [s for s in said if not s.startswith(_TELL)] + self.statements
        self.forget()

    def drop(self) -> None:
        """The transaction is over: what was never said need not be said."""
        self.statements.clear()

    def forget(self) -> None:
        """After a rollback the server holds a scope from before it."""
        self.told = None

    def unsay(self, statement: str) -> bool:
        """Take back one statement that was not sent yet; whether it was there."""
        if statement not in self.statements:
            return False
        self.statements.remove(statement)
        return True

    def unsay_after(self, statement: str) -> bool:
        """Take back all after a statement that was not sent yet; whether it was there."""
        if statement not in self.statements:
            return False
        del self.statements[self.statements.index(statement) + 1 :]
        return True


def preface_of(connection: Connection[Any]) -> Preface:
    """The preface that belongs to a connection for as long as it lives."""
    found: Preface | None = getattr(connection, "boxoffice_preface", None)
    if found is None:
        found = Preface()
        connection.boxoffice_preface = found  # type: ignore[attr-defined]
    return found


class PrefacedCursor(_Cursor):
    """Sends the connection's preface and its own statement in one message.

    It needs the simple query protocol, which Django's client-side binding uses anyway.
    """

    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        """Execute, and leave the cursor at the result of ``query``."""
        preface = preface_of(self.connection)
        # Outside a transaction several statements in one message would be one: a failure of the
        # second undoes the first, and some statements (CREATE DATABASE) are refused.
        is_joined = isinstance(query, str) and (
            bool(preface.statements) or self._status == TransactionStatus.INTRANS
        )
        if not is_joined:
            self.say()
            return super().execute(query, params, **options)
        said = preface.take()
        if said:
            text = "; ".join(said)
            query = f"{text if params is None else text.replace('%', '%%')}; {query}"
        try:
            super().execute(query, params, **options)
        except BaseException:
            preface.forget()
            if self._status != TransactionStatus.INERROR:
                # A parameter too few, or no SQL at all: the transaction has not even begun.
                preface.put_back(said)
            raise
        for _ in said:
            self.nextset()
        return self

    def executemany(self, query: Any, params_seq: Any, **options: Any) -> None:
        """Execute for each, after the preface."""
        self.say()
        super().executemany(query, params_seq, **options)

    def copy(self, statement: Any, params: Any = None, **options: Any) -> Any:
        """Copy, after the preface."""
        self.say()
        return super().copy(statement, params, **options)

    def say(self) -> None:
        """Send the preface by itself. A failed transaction hears nothing but its rollback."""
        if self._status == TransactionStatus.INERROR:
            return
        preface = preface_of(self.connection)
        said = preface.take()
        if not said:
            return
        try:
            super().execute("; ".join(said))
        except BaseException:
            preface.forget()
            raise

    @property
    def _status(self) -> TransactionStatus:
        return self.connection.info.transaction_status

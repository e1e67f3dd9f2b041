"""Looking without touching: PostgreSQL itself refuses what would write."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


@contextmanager
def reads_only() -> Iterator[None]:
    """Run the block in a transaction of its own that can write nothing, and undo even so.

    A statement that writes or locks rows raises ``InternalError``.
    """
    with transaction.atomic():
        connection.forbid_writes()  # type: ignore[attr-defined]
        yield
        # Inside another transaction this also takes the ban back, with the savepoint.
        transaction.set_rollback(True)

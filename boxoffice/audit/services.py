"""Writing to the audit log."""

from django.db import transaction

from boxoffice.audit.models import AuditRecord
from boxoffice.common.types import JsonObject


def record(
    *, action: str, actor: str, target: str = "", details: JsonObject | None = None
) -> AuditRecord:
    """Write down what ``actor`` did to ``target``, in the caller's transaction and scope.

    ``action`` reads ``<app>.<noun>.<past>``; ``actor`` is a principal's key (``user:7``) or the
    name of a part of the system (``system:clock``). Raises ``TransactionManagementError`` outside
    a transaction: a record must live and die with what it tells of.
    """
    if not transaction.get_connection().in_atomic_block:
        raise transaction.TransactionManagementError("An audit record needs a transaction.")
    return AuditRecord.objects.create(
        action=action, actor=actor, target=target, details=details or {}
    )

"""The ledger of calls before the audit log, which answers for what has ended (its port)."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from boxoffice.audit.ledgers import register
from tools.models import CallState, ToolCall

_CHUNK = 200
# What a line holds, by form. The state is told apart: a call that was undone had succeeded.
_FIELDS = {
    1: (
        "id",
        "tenant_id",
        "call_id",
        "origin",
        "run_ref",
        "conversation_ref",
        "user_id",
        "tool",
        "tool_version",
        "arguments",
        "args_hash",
        "idempotency_key",
        "verdict",
        "reason_code",
        "policy_version",
        "policy_rule",
        "shadow_version",
        "shadow_verdict",
        "shadow_rule",
        "seen",
        "approval_id",
        "state",
        "result",
        "outside",
        "error",
        "attempts",
        "latency_ms",
        "created_at",
        "finished_at",
        "ended_position",
    ),
}


class EndedCalls:
    """Calls whose verdict and outcome are final."""

    action = "tools.calls.covered"
    form = 1

    def lines(self, start: int, below: int, form: int) -> Iterator[bytes]:
        """Each as one line of JSON in which equal calls are equal bytes."""
        rows = ToolCall.objects.filter(ended_position__gte=start, ended_position__lt=below)
        for values in rows.order_by("ended_position", "id").values(*_FIELDS[form]).iterator(_CHUNK):
            yield _line(values)

    def count(self, start: int) -> int:
        """How many have ended from that position on."""
        rows: int = ToolCall.objects.filter(ended_position__gte=start).count()
        return rows

    def tenants(self, start: int) -> Iterator[UUID]:
        """Whose they are."""
        rows = ToolCall.objects.filter(ended_position__gte=start).order_by()
        yield from rows.values_list("tenant_id", flat=True).distinct()


def _line(values: dict[str, Any]) -> bytes:
    if values["state"] == CallState.COMPENSATED:
        values["state"] = CallState.SUCCEEDED.value
    text = json.dumps(
        values, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain
    )
    return f"{text}\n".encode()


def _plain(value: UUID | datetime) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="microseconds")
    return str(value)


register(EndedCalls())

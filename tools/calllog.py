"""The log of calls for readers outside: rows, masked or not, as CSV or JSON Lines, in chunks."""

import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import UUID

from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast, Length

from boxoffice.audit.services import record
from boxoffice.common.types import JsonObject
from tools.models import ToolCall
from tools.outputs import BYTES_PER_TOKEN
from tools.privacy import masked, masked_error

type Format = Literal["csv", "jsonl"]
type MayKnow = Callable[[UUID], bool]

CHUNK = 200
COLUMNS = (
    "proposed_at",
    "tenant",
    "id",
    "tool",
    "tool_version",
    "on_behalf_of",
    "tier",
    "verdict",
    "reason_code",
    "policy_version",
    "rule",
    "state",
    "tries",
    "latency_ms",
    "result_tokens",
    "error_code",
    "error_message",
    "is_retryable",
    "from_outside",
    "run",
    "conversation",
    "finished_at",
    "arguments",
)


def with_size(rows: QuerySet[ToolCall]) -> QuerySet[ToolCall]:
    """With the length of each result, in characters of JSON."""
    return rows.annotate(result_chars=Length(Cast(F("result"), TextField())))


def tokens_of(call: ToolCall) -> int | None:
    """About how many tokens a result is; counted as where results are cut."""
    chars: int | None = getattr(call, "result_chars", None)
    return None if chars is None else -(-chars // BYTES_PER_TOKEN)


def person_of(call: ToolCall, *, is_known: bool) -> str:
    """On whose behalf: by name, or by number for whoever may not know."""
    if call.user_id is None or call.user is None:
        return ""
    return str(call.user.get_username()) if is_known else f"#{call.user_id}"


def row_of(call: ToolCall, *, is_known: bool) -> JsonObject:
    """A call as it is given out; ``is_known``: with people's data."""
    error: JsonObject = (call.error if is_known else masked_error(call.error)) or {}
    values = (
        _instant(call.created_at),
        call.tenant.slug,
        str(call.pk),
        call.tool,
        call.tool_version,
        person_of(call, is_known=is_known),
        (call.seen or {}).get("tier", ""),
        call.verdict,
        call.reason_code,
        call.policy_version,
        call.policy_rule,
        call.state,
        call.attempts,
        call.latency_ms,
        tokens_of(call),
        error.get("code", ""),
        error.get("message", ""),
        error.get("retryable"),
        call.outside or [],
        None if call.run_ref is None else str(call.run_ref),
        None if call.conversation_ref is None else str(call.conversation_ref),
        None if call.finished_at is None else _instant(call.finished_at),
        call.arguments if is_known else masked(call, call.arguments),
    )
    return dict(zip(COLUMNS, values, strict=True))


def chunks(rows: QuerySet[ToolCall], *, kind: Format, may_know: MayKnow) -> Iterator[str]:
    """The rows as text, newest first; each chunk is read by itself, so none of it piles up.

    What is proposed after the first chunk was read is not in it.
    """
    if kind == "csv":
        yield _csv([COLUMNS])
    rows = with_size(rows).select_related("tenant", "user").defer("result").order_by("-pk")
    last: UUID | None = None
    while True:
        calls = list((rows if last is None else rows.filter(pk__lt=last))[:CHUNK])
        if not calls:
            return
        last = calls[-1].pk
        found = [row_of(call, is_known=may_know(call.tenant_id)) for call in calls]
        if kind == "csv":
            yield _csv([[_cell(value) for value in row.values()] for row in found])
        else:
            yield "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in found)


def export_record(*, actor: str, kind: Format, wish: str, is_known: bool) -> None:
    """Write down that somebody takes calls of the open tenant away, and which."""
    details = {"format": kind, "filter": wish[:1000], "personal_data": is_known}
    record(action="tools.calls.exported", actor=actor, details=details)


def _csv(rows: Any) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    """A cell that no spreadsheet takes for a formula."""
    if value is None:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"'{text}" if text.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def _instant(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")

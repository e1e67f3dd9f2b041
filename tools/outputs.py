"""Results that are too long for a model: stored whole, and cut where an element or a line ends.

A model is given at most 25,000 tokens. Nobody here has its tokenizer, so bytes are counted: ids
and numbers come to about two bytes a token, prose to four; two is what surely fits.
"""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from boxoffice.common.exceptions import InvalidInput, NotFound
from boxoffice.common.types import JsonObject, uuid7
from tools.models import StoredOutput, ToolCall

MOST_TOKENS = 25_000
BYTES_PER_TOKEN = 2
MOST_BYTES = MOST_TOKENS * BYTES_PER_TOKEN
# What is read at once: quoted in JSON it may grow to twice that, and must not be cut again.
MOST_READ_BYTES = 20_000
# For the mark itself, with the counts of at most so many places.
MARK_BYTES = 3_000
MOST_PLACES = 10
# Below this a value is not worth cutting: it is left out.
LEAST_BYTES = 40


class OutputNotFound(NotFound):
    """There is no such output in this conversation."""

    code = "output_not_found"
    hint = "Use the output_id of a result of this conversation that is marked as cut."


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of an output as it is stored."""

    text: str
    first: int
    last: int
    total_lines: int
    total_bytes: int


def bounded(call: ToolCall, result: JsonObject) -> JsonObject:
    """The result as it is, or cut, with the whole of it stored; in the caller's transaction."""
    size = _size(result)
    if size <= MOST_BYTES:
        return result
    text = json.dumps(result, ensure_ascii=False, indent=1)
    output = StoredOutput(
        id=uuid7(),
        tenant_id=call.tenant_id,
        call=call,
        conversation_ref=call.conversation_ref,
        text=text,
        total_bytes=len(text.encode()),
        total_lines=text.count("\n") + 1,
    )
    output.save(force_insert=True)
    return _cut(result, output)


def output_read(
    *, output_id: UUID, conversation_id: UUID | None, unit: str, first: int, last: int
) -> Piece:
    """Lines or bytes ``first`` to ``last`` (from 1, both included), as far as fits at once.

    Raises ``OutputNotFound`` for what another conversation's call gave, and ``InvalidInput`` for
    a range that begins behind the end.
    """
    output = StoredOutput.objects.filter(
        pk=output_id, conversation_ref=conversation_id, conversation_ref__isnull=False
    ).first()
    if output is None:
        raise OutputNotFound("There is no such output.")
    total = output.total_lines if unit == "lines" else output.total_bytes
    if first > total:
        raise InvalidInput(f"first: there are {total} {unit}, so at most {total}, not {first}.")
    read = _lines if unit == "lines" else _bytes
    text, last = read(output.text, first, min(last, total))
    return Piece(
        text=text,
        first=first,
        last=last,
        total_lines=output.total_lines,
        total_bytes=output.total_bytes,
    )


def _lines(text: str, first: int, last: int) -> tuple[str, int]:
    """Whole lines; only of a first one that alone is too long, a part."""
    taken: list[str] = []
    left = MOST_READ_BYTES
    for line in text.split("\n")[first - 1 : last]:
        size = len(line.encode()) + 1
        if size > left:
            if not taken:
                taken.append(_head(line, left))
            break
        taken.append(line)
        left -= size
    return "\n".join(taken), first + len(taken) - 1


def _bytes(text: str, first: int, last: int) -> tuple[str, int]:
    """Whole characters that begin in the range."""
    raw = text.encode()
    start = first - 1
    end = min(last, start + MOST_READ_BYTES)
    # The end first: a range within one character is empty, and ends where the character does.
    while end < len(raw) and raw[end] & 0xC0 == 0x80:
        end += 1
    while start < end and raw[start] & 0xC0 == 0x80:
        start += 1
    return raw[start:end].decode(), end


def _cut(result: JsonObject, output: StoredOutput) -> JsonObject:
    places: list[JsonObject] = []
    kept: JsonObject = _fit(result, MOST_BYTES - MARK_BYTES, "", places)
    mark = {
        "output_id": str(output.pk),
        "total_bytes": output.total_bytes,
        "total_lines": output.total_lines,
        "shown_bytes": _size(kept),
        "places": places[:MOST_PLACES],
        "places_total": len(places),
        "hint": "This result was cut. Read more with read_output, by lines or bytes.",
    }
    return kept | {"cut": mark}


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode())


def _fit(value: Any, room: int, at: str, places: list[JsonObject]) -> Any:
    """The value in at most ``room`` bytes of JSON; what was cut is added to ``places``."""
    if _size(value) <= room:
        return value
    if isinstance(value, str):
        return _fit_text(value, room, at, places)
    if isinstance(value, list):
        return _fit_list(value, room, at, places)
    if isinstance(value, dict):
        return _fit_object(value, room, at, places)
    return None


def _fit_text(value: str, room: int, at: str, places: list[JsonObject]) -> str:
    shown = _head(value, room - 2)
    while _size(shown) > room:  # quotes and line ends take two bytes in JSON
        shown = _head(shown, len(shown.encode()) - max(1, _size(shown) - room))
    places.append(_place(at, "bytes", len(shown.encode()), len(value.encode())))
    return shown


def _head(text: str, room: int) -> str:
    """The beginning, up to the last line end in the second half, else the last character."""
    head = text.encode()[: max(0, room)].decode(errors="ignore")
    end = head.rfind("\n")
    return head[:end] if end > len(head) // 2 else head


def _fit_list(value: list[Any], room: int, at: str, places: list[JsonObject]) -> list[Any]:
    shown: list[Any] = []
    left = room - 2
    for item in value:
        size = _size(item) + 2
        if size > left:
            break
        shown.append(item)
        left -= size
    if not shown and value and left > LEAST_BYTES:
        shown = [_fit(value[0], left, f"{at}[0]", places)]
    places.append(_place(at, "elements", len(shown), len(value)))
    return shown


def _fit_object(value: JsonObject, room: int, at: str, places: list[JsonObject]) -> JsonObject:
    """Small members whole, and the room that they leave for the large ones, in equal shares."""
    sizes = {key: _size(key) + _size(item) + 4 for key, item in value.items()}
    kept: JsonObject = {}
    left, to_come = room - 2, len(sizes)
    for key in sorted(sizes, key=lambda name: sizes[name]):
        share = left // to_come
        to_come -= 1
        if sizes[key] <= share:
            kept[key] = value[key]
            left -= sizes[key]
            continue
        inner = share - _size(key) - 4
        if inner < LEAST_BYTES or not isinstance(value[key], (str, list, dict)):
            continue
        kept[key] = _fit(value[key], inner, f"{at}.{key}" if at else key, places)
        left -= _size(key) + _size(kept[key]) + 4
    if len(kept) < len(value):
        places.append(_place(at, "members", len(kept), len(value)))
    return {key: kept[key] for key in value if key in kept}


def _place(at: str, unit: str, shown: int, total: int) -> JsonObject:
    return {"at": at[:100], "unit": unit, "shown": shown, "total": total}

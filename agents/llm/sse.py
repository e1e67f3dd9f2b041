"""Server-sent events off the wire, as plain JSON.

The SDK turns each event into models of its types, which for a stream of short tokens costs three
times what reading them does.
"""

import json
from collections.abc import Iterator

from boxoffice.common.types import JsonObject


class EventReader:
    """Takes bytes as they come, and gives the JSON of each event that is whole."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[JsonObject]:
        """The events that ``chunk`` completes; raises ``ValueError`` for what is no JSON object."""
        lines = (self._rest + chunk).splitlines(keepends=True)
        # A line is whole with its end, and "\\r" may be half of one.
        self._rest = lines.pop() if lines and not lines[-1].endswith(b"\n") else b""
        for raw in lines:
            line = raw.rstrip(b"\r\n")
            if line:
                self._take(line)
            elif self._data:
                event = json.loads(b"\n".join(self._data))
                self._data = []
                if not isinstance(event, dict):
                    raise ValueError("An event of the stream is not an object.")
                yield event

    def _take(self, line: bytes) -> None:
        # The name of the event stands in its data too; comments, ids and pauses say nothing here.
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))

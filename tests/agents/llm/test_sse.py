"""Events off the wire, however the bytes are cut."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.sse import EventReader

EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"usage": {"input_tokens": 3}}},
    {"type": "ping"},
    {
        "type": "content_block_delta",
        "index": 0,
        "delta": {"type": "text_delta", "text": "é \r\n x"},
    },
    {"type": "message_stop"},
]


def wire(events: list[dict[str, Any]], end: str) -> bytes:
    parts = [f": a comment{end}"]
    for event in events:
        data = json.dumps(event, ensure_ascii=False)
        parts.append(f"event: {event['type']}{end}data: {data}{end}{end}")
    return "".join(parts).encode()


@given(cuts=st.lists(st.integers(0, 400), max_size=12), end=st.sampled_from(["\n", "\r\n"]))
def test_the_same_events_come_out_wherever_the_bytes_are_cut(cuts: list[int], end: str) -> None:
    data = wire(EVENTS, end)
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    reader = EventReader()
    seen = []
    for start, stop in pairwise(places):
        seen += list(reader.feed(data[start:stop]))
    assert seen == EVENTS


def test_data_of_several_lines_is_one_event() -> None:
    assert list(EventReader().feed(b'data: {"type":\ndata: "ping"}\n\n')) == [{"type": "ping"}]


def test_an_event_that_has_no_end_is_not_given() -> None:
    reader = EventReader()
    assert list(reader.feed(b'data: {"type": "ping"}\n')) == []
    assert list(reader.feed(b"\n")) == [{"type": "ping"}]


@pytest.mark.parametrize("data", [b"data: {not json\n\n", b"data: 17\n\n"])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        list(EventReader().feed(data))

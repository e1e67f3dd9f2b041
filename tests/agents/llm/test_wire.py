"""The frames and messages of the Messages API."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm import wire

BODY: dict[str, Any] = {
    "model": "m",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "oi"}],
}


@given(st.text(max_size=500))
def test_words_join_back_into_the_text(text: str) -> None:
    assert "".join(wire.split_words(text)) == text


@given(st.dictionaries(st.text(max_size=10), st.integers() | st.text(max_size=40), max_size=6))
def test_chunks_of_arguments_join_back_into_the_json(arguments: dict[str, Any]) -> None:
    block = wire.ToolUseBlock("search_events", arguments)
    joined = "".join(delta["partial_json"] for delta in block.deltas())
    assert json.loads(joined) == arguments


def test_a_frame_is_an_event_and_a_line_of_json() -> None:
    frame = wire.Frame("ping", {})
    assert frame.encode() == b'event: ping\ndata: {"type": "ping"}\n\n'


def test_a_line_break_in_a_text_does_not_end_the_frame() -> None:
    message = wire.build_message(body=BODY, blocks=[wire.TextBlock("um\n\ndata: dois")])
    for frame in message.frames():
        assert frame.encode().count(b"\n\n") == 1


def test_a_call_that_does_not_fit_is_left_out_whole() -> None:
    blocks: list[wire.Block] = [wire.TextBlock("um"), wire.ToolUseBlock("x", {"text": "a" * 100})]
    message = wire.build_message(body={**BODY, "max_tokens": 10}, blocks=blocks)
    assert message.stop_reason == "max_tokens"
    assert [block.as_json()["type"] for block in message.blocks] == ["text"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ([], "not a JSON object"),
        ({**BODY, "model": None}, "model"),
        ({**BODY, "max_tokens": True}, "max_tokens"),
        ({**BODY, "messages": "oi"}, "at least one message"),
        ({**BODY, "messages": ["oi"]}, "each message is an object"),
        ({**BODY, "messages": [{"role": "system", "content": "oi"}]}, "first message"),
        (
            {**BODY, "messages": [{"role": "user", "content": [{"type": "text", "text": ""}]}]},
            "non-empty",
        ),
        (
            {
                **BODY,
                "messages": [
                    *BODY["messages"],
                    {
                        "role": "assistant",
                        "content": [{"type": "tool_use", "id": "t", "name": "x", "input": "{}"}],
                    },
                ],
            },
            "object as input",
        ),
    ],
)
def test_what_the_api_refuses_is_named(body: Any, problem: str) -> None:
    assert problem in (wire.request_problem(body) or "")


def test_a_good_request_has_no_problem() -> None:
    call = {"type": "tool_use", "id": "t", "name": "x", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "{}"}
    messages = [
        *BODY["messages"],
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": "e aí?"}]},
    ]
    assert wire.request_problem({**BODY, "messages": messages}) is None

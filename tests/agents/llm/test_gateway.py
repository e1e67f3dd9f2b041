"""The gateway against a real HTTP server: pieces of text, breaks, errors inside a stream."""

from typing import Any

import pytest

from agents.llm import gateway as module
from agents.llm.gateway import Gateway, ModelRefused, ModelUnavailable, _Assembly, _StreamBroken
from agents.llm.turns import ModelRequest, ModelTurn
from tests.support.scripted_model import Reply, ScriptedModel

REQUEST = ModelRequest(
    model="claude-haiku-4-5",
    system=[{"type": "text", "text": "Be brief."}],
    messages=[{"role": "user", "content": [{"type": "text", "text": "oi"}]}],
    tools=[],
    max_tokens=100,
)


@pytest.fixture(autouse=True)
def scripted(settings: Any, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.ANTHROPIC_API_KEY = "scripted"
    settings.ANTHROPIC_BASE_URL = model.base_url
    monkeypatch.setattr(module, "BACKOFF_SECONDS", 0.01)


async def ask(heard: list[str]) -> ModelTurn:
    gateway = Gateway()
    try:
        return await gateway.stream(
            REQUEST, on_text=heard.append, on_restart=lambda: heard.append("<again>")
        )
    finally:
        await gateway.close()


async def test_text_comes_in_pieces_and_is_whole_at_the_end(model: ScriptedModel) -> None:
    model.script([Reply.text("um dois três")])
    heard: list[str] = []
    turn = await ask(heard)
    assert len(heard) == 3
    assert "".join(heard) == turn.text == "um dois três"
    assert turn.stop_reason == "end_turn"
    assert turn.usage.input_tokens > 0
    assert turn.usage.output_tokens > 0
    assert turn.request_id.startswith("req_")


async def test_calls_are_read_from_their_pieces(model: ScriptedModel) -> None:
    model.script([Reply.tools(("search_events", {"query": "jazz é bom " * 5}), text="Já vou.")])
    turn = await ask([])
    (call,) = turn.calls
    assert call.arguments == {"query": "jazz é bom " * 5}
    assert [block["type"] for block in turn.blocks] == ["text", "tool_use"]
    assert turn.blocks[1]["input"] == call.arguments


async def test_a_stream_that_is_overloaded_in_the_middle_is_begun_again(
    model: ScriptedModel,
) -> None:
    model.script(
        [Reply.stream_error("overloaded_error", after=1, text="um dois"), Reply.text("um dois")]
    )
    heard: list[str] = []
    turn = await ask(heard)
    assert turn.text == "um dois"
    assert heard == ["um", "<again>", "um", " dois"]


async def test_an_error_in_a_stream_that_will_not_go_away_is_not_tried_again(
    model: ScriptedModel,
) -> None:
    model.script([Reply.stream_error("invalid_request_error"), Reply.text("never")])
    with pytest.raises(ModelUnavailable):
        await ask([])
    assert model.unused == 1


async def test_a_stream_that_breaks_each_time_is_given_up(model: ScriptedModel) -> None:
    model.script([Reply.truncated(after=1), Reply.cut(after=1), Reply.truncated(after=0)])
    with pytest.raises(ModelUnavailable):
        await ask([])
    assert len(model.requests) == 3


@pytest.mark.parametrize(
    ("status", "kind", "error"),
    [
        (401, "authentication_error", ModelRefused),
        (413, "request_too_large", ModelRefused),
        (529, "overloaded_error", ModelUnavailable),
    ],
)
async def test_a_refusal_says_whether_it_is_ours(
    model: ScriptedModel, status: int, kind: str, error: type[Exception]
) -> None:
    model.route(lambda body: Reply.error(status, kind, retry_after=0.01))
    with pytest.raises(error):
        await ask([])


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "text",
        {},
        {"type": "message_start"},
        {"type": "content_block_delta", "index": 3, "delta": {"type": "text_delta", "text": "a"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": 7}},
        {"type": "message_delta", "delta": {}, "usage": {}},
    ],
    ids=lambda event: str(event)[:40],
)
def test_an_event_that_is_none_breaks_the_stream_and_nothing_else(event: Any) -> None:
    assembly = _Assembly()
    with pytest.raises(_StreamBroken):
        assembly.take(event)
        assembly.finish()


def test_an_event_of_an_unknown_kind_is_passed_over() -> None:
    assembly = _Assembly()
    assert assembly.take({"type": "a_kind_of_tomorrow", "index": 0}) == ""

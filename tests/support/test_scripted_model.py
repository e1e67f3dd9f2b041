"""The scripted model behaves, through the real SDK, like the Messages API and its failures."""

import asyncio
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from anthropic import AsyncAnthropic, DefaultAioHttpClient

from agents.llm import wire
from tests.support.scripted_model import (
    Reply,
    ScriptedModel,
    last_tool_results,
    tool_names,
    user_texts,
)

ASK: dict[str, Any] = {
    "model": "claude-haiku-4-5",
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "oi"}],
}
TOOL: Any = {"name": "search_events", "input_schema": {"type": "object"}}


@pytest.fixture
def model() -> Iterator[ScriptedModel]:
    with ScriptedModel() as server:
        yield server


def client_for(model: ScriptedModel, *, retries: int = 0) -> AsyncAnthropic:
    return AsyncAnthropic(
        base_url=model.base_url,
        api_key="k",
        http_client=DefaultAioHttpClient(),
        max_retries=retries,
    )


async def read_events(model: ScriptedModel, *, retries: int = 0, **changes: Any) -> list[Any]:
    events: list[Any] = []
    async with client_for(model, retries=retries) as client:
        await read_into(events, client, **changes)
    return events


async def read_into(events: list[Any], client: AsyncAnthropic, **changes: Any) -> None:
    stream = await client.messages.create(**{**ASK, **changes}, stream=True)
    async for event in stream:
        events.append(event)


def text_of(events: list[Any]) -> str:
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    return "".join(delta.text for delta in deltas if delta.type == "text_delta")


def input_json_of(events: list[Any], index: int) -> str:
    return "".join(
        event.delta.partial_json
        for event in events
        if event.type == "content_block_delta"
        and event.index == index
        and event.delta.type == "input_json_delta"
    )


def test_text_arrives_word_by_word_in_the_order_of_the_api(model: ScriptedModel) -> None:
    model.script([Reply.text("Três eventos\n\n- um, dois ")])
    events = asyncio.run(read_events(model))
    assert [event.type for event in events][:2] == ["message_start", "content_block_start"]
    assert [event.type for event in events][-3:] == [
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert text_of(events) == "Três eventos\n\n- um, dois "
    assert sum(event.type == "content_block_delta" for event in events) == 6
    assert events[-2].delta.stop_reason == "end_turn"
    assert events[0].message.usage.input_tokens > 0
    assert events[-2].usage.output_tokens == 7


def test_tool_calls_of_one_turn_have_their_own_ids_and_inputs(model: ScriptedModel) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("search_events", {"query": "jazz à noite", "max_price_brl": 300.5}),
        ("search_seats", {"event_id": "e1", "quantity": 2}),
    ]
    model.script([Reply.tools(*calls, text="Procurando")])
    events = asyncio.run(read_events(model))
    starts = [event.content_block for event in events if event.type == "content_block_start"]
    assert [block.type for block in starts] == ["text", "tool_use", "tool_use"]
    assert [block.name for block in starts[1:]] == ["search_events", "search_seats"]
    assert starts[1].id != starts[2].id
    assert json.loads(input_json_of(events, 1)) == calls[0][1]
    assert json.loads(input_json_of(events, 2)) == calls[1][1]
    assert events[-2].delta.stop_reason == "tool_use"


def test_raw_tool_streams_arguments_that_are_not_json(model: ScriptedModel) -> None:
    model.script([Reply.raw_tool("hold_seats", '{"seat_ids": [1, ')])
    events = asyncio.run(read_events(model))
    assert input_json_of(events, 0) == '{"seat_ids": [1, '


def test_without_stream_the_whole_message_comes_at_once(model: ScriptedModel) -> None:
    model.script([Reply.tools(("search_events", {"city": "Recife"}), text="Vejamos")])

    async def ask() -> anthropic.types.Message:
        async with client_for(model) as client:
            message: anthropic.types.Message = await client.messages.create(**ASK)
            return message

    message = asyncio.run(ask())
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert message.stop_reason == "tool_use"
    assert message._request_id is not None
    assert message._request_id.startswith("req_")


def test_count_tokens_counts_the_text_of_the_request(model: ScriptedModel) -> None:
    async def count(text: str) -> int:
        async with client_for(model) as client:
            result = await client.messages.count_tokens(
                model="m", messages=[{"role": "user", "content": text}]
            )
            return result.input_tokens

    assert asyncio.run(count("a" * 4000)) - asyncio.run(count("a")) in (999, 1000)


@pytest.mark.parametrize(
    ("status", "error_type", "expected"),
    [
        (400, "invalid_request_error", anthropic.BadRequestError),
        (429, "rate_limit_error", anthropic.RateLimitError),
        (529, "overloaded_error", anthropic.InternalServerError),
    ],
)
def test_error_status_reaches_the_sdk(
    model: ScriptedModel, status: int, error_type: str, expected: type[anthropic.APIStatusError]
) -> None:
    model.script([Reply.error(status, error_type, "no room", retry_after=0.01)])
    with pytest.raises(expected) as caught:
        asyncio.run(read_events(model))
    assert caught.value.status_code == status
    assert caught.value.type == error_type
    assert caught.value.request_id is not None


def test_sdk_retries_a_scripted_overload_and_both_tries_are_recorded(model: ScriptedModel) -> None:
    model.script([Reply.error(529, "overloaded_error", retry_after=0.01), Reply.text("pronto")])
    assert text_of(asyncio.run(read_events(model, retries=1))) == "pronto"
    assert len(model.requests) == 2
    assert model.request_headers[1]["x-stainless-retry-count"] == "1"
    assert model.unused == 0


def test_stream_error_comes_after_the_deltas(model: ScriptedModel) -> None:
    model.script([Reply.stream_error("overloaded_error", after=3, text="um dois tres quatro")])
    events: list[Any] = []

    async def read() -> None:
        async with client_for(model) as client:
            await read_into(events, client)

    with pytest.raises(anthropic.APIStatusError) as caught:
        asyncio.run(read())
    assert caught.value.type == "overloaded_error"
    assert text_of(events) == "um dois tres"


def test_cut_drops_the_connection_after_the_deltas(model: ScriptedModel) -> None:
    model.script([Reply.cut(after=2, text="um dois tres quatro")])
    events: list[Any] = []

    async def read() -> None:
        async with client_for(model) as client:
            await read_into(events, client)

    with pytest.raises((httpx2.TransportError, anthropic.APIConnectionError)):
        asyncio.run(read())
    assert text_of(events) == "um dois"


@pytest.mark.parametrize("after", [0, 2, 99])
def test_truncated_stream_ends_without_a_stop(model: ScriptedModel, after: int) -> None:
    model.script([Reply.truncated(after=after, text="um dois tres quatro")])
    events = asyncio.run(read_events(model))
    assert text_of(events).split() == ["um", "dois", "tres", "quatro"][:after]
    assert not {"message_delta", "message_stop"} & {event.type for event in events}


@pytest.mark.parametrize("after", [0, 2])
def test_hang_sends_no_more_and_lets_the_server_stop(after: int) -> None:
    events: list[Any] = []

    async def read(model: ScriptedModel) -> None:
        async with client_for(model) as client:
            async with asyncio.timeout(0.3):
                await read_into(events, client)

    with ScriptedModel() as model:
        model.script([Reply.hang(after=after, text="um dois tres")])
        with pytest.raises(TimeoutError):
            asyncio.run(read(model))
        assert len(model.requests) == 1
    assert text_of(events).split() == ["um", "dois", "tres"][:after]


def test_route_decides_from_the_request_alone(model: ScriptedModel) -> None:
    def answer(body: dict[str, Any]) -> Reply:
        if last_tool_results(body):
            return Reply.text("achei")
        return Reply.tools(("search_events", {"query": user_texts(body)[-1]}))

    model.route(answer)

    async def ask_everything(client: AsyncAnthropic, text: str) -> tuple[str, str]:
        messages: list[Any] = [{"role": "user", "content": text}]
        first = await client.messages.create(**{**ASK, "messages": messages}, tools=[TOOL])
        call = first.content[0]
        assert call.type == "tool_use"
        messages += [
            {"role": "assistant", "content": [call.model_dump(include=wire_fields(call))]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "{}"}],
            },
        ]
        second = await client.messages.create(**{**ASK, "messages": messages}, tools=[TOOL])
        assert second.content[0].type == "text"
        return str(call.input["query"]), second.content[0].text

    async def ask_at_once() -> list[tuple[str, str]]:
        async with client_for(model) as client:
            texts = [f"pedido {number}" for number in range(20)]
            return await asyncio.gather(*(ask_everything(client, text) for text in texts))

    answers = asyncio.run(ask_at_once())
    assert answers == [(f"pedido {number}", "achei") for number in range(20)]
    assert len(model.requests) == 40
    assert tool_names(model.requests[0]) == ["search_events"]


def wire_fields(call: Any) -> set[str]:
    return {"type", "id", "name", "input"}


def test_nothing_scripted_is_refused_and_not_retried(model: ScriptedModel) -> None:
    with pytest.raises(anthropic.BadRequestError, match="Nothing is scripted"):
        asyncio.run(read_events(model, retries=2))
    assert len(model.requests) == 1


def test_a_failing_route_says_so(model: ScriptedModel) -> None:
    model.route(lambda body: Reply.text(body["no such key"]))
    with pytest.raises(anthropic.BadRequestError, match="no such key"):
        asyncio.run(read_events(model))


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([], "at least one message"),
        ([{"role": "assistant", "content": "oi"}], "first message"),
        ([{"role": "user", "content": ""}], "must not be empty"),
        (
            [
                {"role": "user", "content": "oi"},
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t1", "name": "x", "input": {}}],
                },
                {"role": "user", "content": "e aí?"},
            ],
            "without `tool_result`",
        ),
        (
            [
                {"role": "user", "content": "oi"},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t9", "content": "{}"}],
                },
            ],
            "answers one `tool_use`",
        ),
    ],
)
def test_a_conversation_the_api_would_refuse_is_refused(
    model: ScriptedModel, messages: list[Any], reason: str
) -> None:
    model.script([Reply.text("oi")])
    with pytest.raises(anthropic.BadRequestError, match=reason):
        asyncio.run(read_events(model, messages=messages))
    assert model.unused == 1


def test_max_tokens_cuts_the_answer(model: ScriptedModel) -> None:
    model.script([Reply.text("a" * 100)])
    events = asyncio.run(read_events(model, max_tokens=10))
    assert text_of(events) == "a" * 40
    assert events[-2].delta.stop_reason == "max_tokens"


def test_a_held_reply_waits_for_its_event(model: ScriptedModel) -> None:
    gate = threading.Event()
    model.script([Reply.text("enfim").when(gate)])
    answers: list[str] = []
    asker = threading.Thread(
        target=lambda: answers.append(text_of(asyncio.run(read_events(model))))
    )
    asker.start()
    assert len(model.wait_for_requests(1)) == 1
    assert answers == []
    gate.set()
    asker.join()
    assert answers == ["enfim"]


def test_waiting_for_requests_that_never_come_fails(model: ScriptedModel) -> None:
    with pytest.raises(TimeoutError, match="0 of 1"):
        model.wait_for_requests(1, timeout=0.01)


def test_reset_forgets_script_route_and_requests(model: ScriptedModel) -> None:
    model.script([Reply.text("um"), Reply.text("dois")])
    asyncio.run(read_events(model))
    model.route(lambda body: Reply.text("rota"))
    model.reset()
    assert (model.unused, model.requests) == (0, [])
    with pytest.raises(anthropic.BadRequestError, match="Nothing is scripted"):
        asyncio.run(read_events(model))


def test_command_serves_answers_of_the_asked_length() -> None:
    command = [sys.executable, "-m", "tests.support.scripted_model"]
    options = ["--port", "0", "--tokens", "7", "--delay-ms", "0", "--steps", "2"]
    root = Path(__file__).parents[2]
    process = subprocess.Popen([*command, *options], cwd=root, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()

        async def ask() -> anthropic.types.Message:
            client = AsyncAnthropic(
                base_url=base_url, api_key="k", http_client=DefaultAioHttpClient()
            )
            async with client:
                answer: anthropic.types.Message = await client.messages.create(**ASK, tools=[TOOL])
                return answer

        message = asyncio.run(ask())
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    assert message.content[0].type == "text"
    assert len(wire.split_words(message.content[0].text)) == 7
    assert message.stop_reason == "tool_use"

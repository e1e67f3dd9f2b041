"""The demo model through the real SDK: the same path as with a key."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic, DefaultAioHttpClient

from agents.llm.demo import start_demo_server
from tests.support.demo_stage import SYSTEM, BoxOffice

TOOLS: list[Any] = [
    {"name": name, "description": name, "input_schema": {"type": "object"}}
    for name in ("search_events", "search_seats", "hold_seats", "place_order")
]
ASK = "encontre dois assentos abaixo de R$ 300 para sábado e reserve-os"


def with_client[T](use: Callable[[AsyncAnthropic], Awaitable[T]], *, delay_ms: float = 0) -> T:
    async def run() -> T:
        server = await start_demo_server(token_delay_ms=delay_ms)
        client = AsyncAnthropic(
            base_url=server.base_url,
            api_key="k",
            http_client=DefaultAioHttpClient(),
            max_retries=0,
        )
        try:
            async with client:
                return await use(client)
        finally:
            await server.close()

    return asyncio.run(run())


async def stream_of(client: AsyncAnthropic, messages: list[Any], **changes: Any) -> list[Any]:
    body = {"model": "demo", "max_tokens": 1000, "system": SYSTEM, "messages": messages}
    stream = await client.messages.create(**{**body, "tools": TOOLS, **changes}, stream=True)
    return [event async for event in stream]


def text_of(events: list[Any]) -> str:
    deltas = [event.delta for event in events if event.type == "content_block_delta"]
    return "".join(delta.text for delta in deltas if delta.type == "text_delta")


def calls_of(events: list[Any]) -> list[dict[str, Any]]:
    calls: dict[int, dict[str, Any]] = {}
    for event in events:
        if event.type == "content_block_start" and event.content_block.type == "tool_use":
            calls[event.index] = {
                "id": event.content_block.id,
                "name": event.content_block.name,
                "json": "",
            }
        elif event.type == "content_block_delta" and event.delta.type == "input_json_delta":
            calls[event.index]["json"] += event.delta.partial_json
    return list(calls.values())


def test_a_wish_becomes_calls_and_a_text_over_the_sdk() -> None:
    office = BoxOffice()

    async def converse(client: AsyncAnthropic) -> tuple[list[str], str]:
        messages: list[Any] = [{"role": "user", "content": ASK}]
        names: list[str] = []
        while True:
            events = await stream_of(client, messages)
            calls = calls_of(events)
            if not calls:
                assert events[-2].delta.stop_reason == "end_turn"
                return names, text_of(events)
            assert events[-2].delta.stop_reason == "tool_use"
            for call in calls:
                names.append(call["name"])
                arguments = json.loads(call["json"])
                use = {"type": "tool_use", "id": call["id"], "name": call["name"]}
                messages.append({"role": "assistant", "content": [{**use, "input": arguments}]})
                result = json.dumps(office.run(call["name"], arguments))
                block = {"type": "tool_result", "tool_use_id": call["id"], "content": result}
                messages.append({"role": "user", "content": [block]})

    names, text = with_client(converse)
    assert names == ["search_events", "search_seats", "hold_seats"]
    assert "Reservei Plateia, fila C, assentos 10 e 11" in text


def test_the_answer_comes_in_words_with_its_usage() -> None:
    messages = [{"role": "user", "content": "quem é você?"}]
    events = with_client(lambda client: stream_of(client, messages))
    deltas = [event for event in events if event.type == "content_block_delta"]
    assert len(deltas) == len(text_of(events).split())
    start = events[0].message
    assert start.model == "demo"
    assert start.usage.input_tokens > len(SYSTEM) // 4
    assert events[-2].usage.output_tokens == -(-len(text_of(events)) // 4)


def test_words_come_while_the_answer_is_still_being_written() -> None:
    messages: list[Any] = [{"role": "user", "content": "oi"}]

    async def first_word(client: AsyncAnthropic) -> bool:
        # An hour between words: only a stream that is not held back gets as far as its start.
        stream = await client.messages.create(
            model="demo", max_tokens=100, system=SYSTEM, messages=messages, stream=True
        )
        async for event in stream:
            if event.type == "content_block_start":
                await stream.close()
                return True
        return False

    assert with_client(first_word, delay_ms=3_600_000)


def test_without_stream_the_whole_message_comes_at_once() -> None:
    async def ask(client: AsyncAnthropic) -> anthropic.types.Message:
        message: anthropic.types.Message = await client.messages.create(
            model="demo",
            max_tokens=1000,
            system=SYSTEM,
            messages=[{"role": "user", "content": ASK}],
            tools=TOOLS,
        )
        return message

    message = with_client(ask)
    (call,) = message.content
    assert call.type == "tool_use"
    assert call.input == {
        "date_from": "2026-12-05",
        "date_to": "2026-12-05",
        "max_price_brl": 300,
    }
    assert (message._request_id or "").startswith("req_")


def test_max_tokens_cuts_the_answer() -> None:
    messages = [{"role": "user", "content": "quem é você?"}]
    events = with_client(lambda client: stream_of(client, messages, max_tokens=5))
    assert events[-2].delta.stop_reason == "max_tokens"
    assert len(text_of(events)) == 20


def test_tokens_are_counted_without_max_tokens() -> None:
    async def count(client: AsyncAnthropic) -> int:
        result = await client.messages.count_tokens(
            model="demo", messages=[{"role": "user", "content": "a" * 400}]
        )
        return result.input_tokens

    assert with_client(count) >= 100


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"messages": []}, "at least one message"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"model": ""}, "model"),
    ],
)
def test_a_request_the_api_would_refuse_is_refused(changes: dict[str, Any], reason: str) -> None:
    asked = {"messages": [{"role": "user", "content": "oi"}], **changes}
    with pytest.raises(anthropic.BadRequestError, match=reason) as caught:
        with_client(lambda client: stream_of(client, **asked))
    assert caught.value.type == "invalid_request_error"
    assert caught.value.request_id is not None


def test_a_body_that_is_not_json_and_an_unknown_path_are_api_errors() -> None:
    async def post(client: AsyncAnthropic) -> tuple[int, str, int, str]:
        http = client._client
        broken = await http.post(f"{client.base_url}/v1/messages", content=b"{not json")
        missing = await http.get(f"{client.base_url}/v1/models")
        return (
            broken.status_code,
            broken.json()["error"]["type"],
            missing.status_code,
            missing.json()["error"]["type"],
        )

    assert with_client(post) == (400, "invalid_request_error", 404, "not_found_error")


def test_many_fans_talk_at_once_and_nobody_gets_the_answer_of_another() -> None:
    async def ask_all(client: AsyncAnthropic) -> list[str]:
        async def ask(number: int) -> str:
            day = {"role": "user", "content": f"shows no dia {number}/12"}
            (call,) = calls_of(await stream_of(client, [day]))
            return str(json.loads(call["json"])["date_from"])

        return await asyncio.gather(*(ask(number) for number in range(1, 29)))

    assert with_client(ask_all) == [f"2026-12-{number:02d}" for number in range(1, 29)]

"""How fast this machine is now, by work that does not change with the product."""

import asyncio
import json
import time

import anthropic
import httpx2
import uvloop

from benchmarks.table import Row

TALKS, TOKENS, DELAY_MS = 50, 60, 20.0


def sdk_token_us(url: str) -> float:
    """CPU time of the SDK alone for each event of a stream, as the design measured it.

    `create(stream=True)` with typed events, over aiohttp and uvloop, 50 answers at once. Where
    the aims of the other figures were set it was 82 µs (DESIGN §1).
    """
    return uvloop.run(_sdk_token_us(url))


def sdk_row(value: float) -> Row:
    """That time as a row of a table."""
    return Row(
        figure="this machine now: the SDK alone, CPU per token",
        value=value,
        unit="µs",
        reference="82 µs",
    )


async def _sdk_token_us(url: str) -> float:
    limits = httpx2.Limits(max_connections=TALKS, max_keepalive_connections=TALKS)
    client = anthropic.AsyncAnthropic(
        api_key="benchmark",
        base_url=url,
        http_client=anthropic.DefaultAioHttpClient(limits=limits),
    )
    async with client:
        await _listen(client, tokens=2)  # connections, imports
        started = time.process_time()
        events = await asyncio.gather(*(_listen(client, tokens=TOKENS) for _ in range(TALKS)))
        return (time.process_time() - started) / sum(events) * 1e6


async def _listen(client: anthropic.AsyncAnthropic, *, tokens: int) -> int:
    wish = json.dumps({"steps": 1, "tokens": tokens, "delay_ms": DELAY_MS})
    stream = await client.messages.create(
        model="benchmark",
        max_tokens=1_000,
        messages=[{"role": "user", "content": [{"type": "text", "text": wish}]}],
        stream=True,
    )
    count = 0
    async with stream:
        async for _ in stream:
            count += 1
    return count

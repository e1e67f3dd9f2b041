"""200 fans want the same 50 pairs of seats at the same moment, through the API and its workers."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx2
import pytest

from agents.models import Message, Run, RunState, Speaker
from boxoffice.common.clock import now
from boxoffice.tenancy.models import ApiToken, Membership, Tier, User
from boxoffice.ticketing.models import Hold, Price, Seat, SeatClaim, Section
from tests.agents.loop.test_loop import data_of
from tests.support.cast import Cast
from tests.support.scripted_model import (
    Reply,
    Route,
    ScriptedModel,
    last_tool_results,
    user_texts,
)
from tests.support.stack import Stack
from tools.models import ToolCall

FANS = 200
PAIRS = 50
AT_ONCE = 40
# All fans of ten pairs ask the API what they hold.
LOOK = 10 * FANS // PAIRS
ENDS_SECONDS = 60
UNFINISHED = [RunState.QUEUED, RunState.RUNNING, RunState.WAITING]

type Pair = tuple[UUID, UUID]


@dataclass(frozen=True, slots=True)
class Fan:
    """One fan: who they are, their key, and the pair that they want."""

    user_id: int
    token: str
    pair: int


@dataclass(frozen=True, slots=True)
class Asked:
    """What a fan's message became."""

    fan: Fan
    run: UUID


@pytest.fixture
def pairs(arena: Cast) -> list[Pair]:
    """50 pairs of neighbouring seats with a price."""
    with arena.scope():
        section = Section.objects.create(venue=arena.seats.venue, name="Pista", position=9)
        Price.objects.create(event=arena.seats.event, section=section, amount_minor=10_000)
        seats = Seat.objects.bulk_create(
            Seat(tenant=arena.tenant, section=section, row=f"R{pair}", number=n, x=n, y=pair)
            for pair in range(PAIRS)
            for n in (1, 2)
        )
    ids = [seat.pk for seat in seats]
    return list(zip(ids[::2], ids[1::2], strict=True))


@pytest.fixture
def fans(arena: Cast) -> list[Fan]:
    """200 members with tokens; those who want the same pair come one after another."""
    users = User.objects.bulk_create(
        User(username=f"fan{n}", email=f"fan{n}@example.com") for n in range(FANS)
    )
    tokens = [f"bo_race_{n}" for n in range(FANS)]
    with arena.scope():
        tier = Tier.objects.get(slug="free")
        Membership.objects.bulk_create(
            Membership(tenant=arena.tenant, user=user, tier=tier) for user in users
        )
        ApiToken.objects.bulk_create(
            ApiToken(
                tenant=arena.tenant,
                user=user,
                digest=sha256(token.encode()).hexdigest(),
                expires_at=now() + timedelta(hours=1),
            )
            for user, token in zip(users, tokens, strict=True)
        )
    return [
        Fan(user.pk, token, number * PAIRS // FANS)
        for number, (user, token) in enumerate(zip(users, tokens, strict=True))
    ]


@pytest.fixture
def stack(arena: Cast, model: ScriptedModel, tmp_path: Path) -> Iterator[Stack]:
    """The web, two workers that take all fans at once, and the scheduler."""
    env = {"ANTHROPIC_API_KEY": "scripted", "ANTHROPIC_BASE_URL": model.base_url}
    with Stack(home=tmp_path, workers=2, concurrency=FANS // 2, env=env) as live:
        yield live


def holds_what_is_asked(arena: Cast, pairs: list[Pair]) -> Route:
    """ "hold pair 7": the two seats, in the order that the fan said, then what came of it."""
    event = str(arena.seats.event.pk)

    def answer(body: dict[str, Any]) -> Reply:
        results = [data_of(block) for block in last_tool_results(body)]
        if results:
            error = results[0].get("error")
            return Reply.text(f"lost: {error['code']}" if error else "won")
        *_, number, order = user_texts(body)[-1].split()
        seats = [str(pk) for pk in pairs[int(number)]]
        if order == "backwards":
            seats.reverse()
        return Reply.tools(("hold_seats", {"event_id": event, "seat_ids": seats}))

    return answer


async def everybody_asks(stack: Stack, fans: list[Fan]) -> list[Asked]:
    limits = httpx2.Limits(max_connections=AT_ONCE)
    base = f"{stack.url}/t/arena/api/v1/"
    async with httpx2.AsyncClient(base_url=base, timeout=60, limits=limits) as client:

        async def ask(number: int, fan: Fan) -> Asked:
            headers = {"Authorization": f"Bearer {fan.token}"}
            made = await client.post("conversations/", json={}, headers=headers)
            assert made.status_code == 201, made.text
            order = "backwards" if number % 2 else "forwards"
            posted = await client.post(
                f"conversations/{made.json()['id']}/messages/",
                json={"text": f"hold pair {fan.pair} {order}"},
                headers=headers,
            )
            assert posted.status_code == 202, posted.text
            return Asked(fan, UUID(posted.json()["run"]))

        return await asyncio.gather(*(ask(n, fan) for n, fan in enumerate(fans)))


async def everybody_looks(stack: Stack, fans: list[Fan]) -> list[list[dict[str, Any]]]:
    """The holds that each fan has, as the API says."""
    limits = httpx2.Limits(max_connections=AT_ONCE)
    base = f"{stack.url}/t/arena/api/v1/"
    async with httpx2.AsyncClient(base_url=base, timeout=60, limits=limits) as client:

        async def look(fan: Fan) -> list[dict[str, Any]]:
            answer = await client.get("holds/", headers={"Authorization": f"Bearer {fan.token}"})
            assert answer.status_code == 200, answer.text
            return list(answer.json()["results"])

        return await asyncio.gather(*map(look, fans))


def wait_for_the_end(arena: Cast) -> None:
    deadline = time.monotonic() + ENDS_SECONDS
    with arena.scope():
        while left := Run.objects.filter(state__in=UNFINISHED).count():
            assert time.monotonic() < deadline, f"{left} runs have not ended"
            time.sleep(0.1)


def test_every_pair_goes_to_exactly_one_of_200_fans(
    arena: Cast, model: ScriptedModel, pairs: list[Pair], fans: list[Fan], stack: Stack
) -> None:
    model.route(holds_what_is_asked(arena, pairs))
    asked = asyncio.run(everybody_asks(stack, fans))
    wait_for_the_end(arena)

    with arena.scope():
        assert Counter(Run.objects.values_list("state", flat=True)) == {RunState.SUCCEEDED: FANS}
        claims = list(SeatClaim.objects.select_related("hold").filter(released_at=None))
        holds = list(Hold.objects.all())
    seats_of: dict[int, set[UUID]] = defaultdict(set)
    for claim in claims:
        seats_of[claim.hold.user_id].add(claim.seat_id)
    # Two seats each, a pair each, all pairs gone, and no hold without its seats.
    assert len(claims) == 2 * PAIRS
    assert len(holds) == len(seats_of) == PAIRS
    assert {hold.status for hold in holds} == {"active"}
    assert sorted(map(sorted, seats_of.values())) == sorted(map(sorted, pairs))
    for fan in fans:
        assert seats_of.get(fan.user_id, set()) in (set(), set(pairs[fan.pair]))

    losers_are_told(arena, asked, set(seats_of))
    some = fans[:LOOK]
    for fan, rows in zip(some, asyncio.run(everybody_looks(stack, some)), strict=True):
        shown = [{UUID(seat["id"]) for seat in row["seats"]} for row in rows]
        assert shown == ([seats_of[fan.user_id]] if fan.user_id in seats_of else [])


def losers_are_told(arena: Cast, asked: list[Asked], winners: set[int]) -> None:
    with arena.scope():
        calls = {call.run_ref: call for call in ToolCall.objects.all()}
        answers = dict(
            Message.objects.filter(speaker=Speaker.ASSISTANT).values_list("run_id", "text")
        )
        assert ToolCall.objects.count() == len(answers) == FANS
    for one in asked:
        call = calls[one.run]
        if one.fan.user_id in winners:
            assert (call.state, answers[one.run]) == ("succeeded", "won")
        else:
            assert (call.state, answers[one.run]) == ("failed", "lost: seats_taken")
            assert call.error["code"] == "seats_taken"
            assert f"R{one.fan.pair}" in call.error["message"]

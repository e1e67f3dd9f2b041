"""How many messages somebody may send: the same at every door, and nobody pays for another."""

from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client

from agents.models import Conversation, Message
from agents.posting import message_admit
from boxoffice.common import valkey
from boxoffice.common.exceptions import Forbidden, TooMany
from boxoffice.tenancy.models import Tier
from boxoffice.tenancy.principals import Principal
from tests.support.cast import Cast
from tests.support.sockets import in_thread, page, signed_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _awake(settings: Any) -> None:
    """Nobody takes a busy machine for a Valkey that is away."""
    settings.VALKEY_PATIENCE_SECONDS = 10.0
    valkey.forget_absence()


@pytest.fixture
def conversation(arena: Cast) -> Conversation:
    return arena.conversation("ana")


@pytest.fixture
def two(arena: Cast) -> None:
    """Two messages a minute."""
    with arena.scope():
        Tier.objects.update(rate_per_min=2)


def count(arena: Cast) -> int:
    with arena.scope():
        return Message.objects.count()


def admitted(who: Principal, conversation_id: UUID | None, key: str | None = None) -> bool:
    try:
        message_admit(principal=who, conversation_id=conversation_id, key=key)
    except TooMany:
        return False
    return True


def post(arena: Cast, conversation: Conversation, text: str, **headers: str) -> Any:
    return Client().post(
        f"/t/arena/api/v1/conversations/{conversation.pk}/messages/",
        {"text": text},
        content_type="application/json",
        headers={"Authorization": f"Bearer {arena.token('ana')}", **headers},
    )


def test_over_rest_the_answer_says_when_to_come_back(
    arena: Cast, conversation: Conversation, two: None
) -> None:
    assert [post(arena, conversation, str(n)).status_code for n in range(2)] == [202, 202]
    refused = post(arena, conversation, "mais", **{"Accept-Language": "en"})
    assert refused.status_code == 429
    assert refused["Content-Type"] == "application/problem+json"
    body = refused.json()
    assert body["code"] == "rate_limited"
    assert 0 < int(refused["Retry-After"]) <= 30
    assert body["retry_after"] == int(refused["Retry-After"])
    assert "many messages" in body["detail"]
    assert count(arena) == 2


def test_the_same_message_again_is_not_counted(
    arena: Cast, conversation: Conversation, two: None
) -> None:
    for _ in range(5):
        assert post(arena, conversation, "um", **{"Idempotency-Key": "k"}).status_code == 202
    assert post(arena, conversation, "dois").status_code == 202
    assert post(arena, conversation, "três").status_code == 429
    assert count(arena) == 2


def test_one_name_in_many_conversations_is_many_messages(arena: Cast, two: None) -> None:
    who = arena.principal("ana")
    assert [admitted(who, uuid4(), "same") for _ in range(4)] == [True, True, False, False]


def test_on_the_page_without_a_script_it_is_a_sentence_and_the_text_stays(
    arena: Cast, conversation: Conversation, two: None
) -> None:
    ana = signed_in(arena, "ana")
    path = f"/t/arena/c/{conversation.pk}/"
    for text in ("um", "dois"):
        assert ana.post(path, {"text": text}).status_code == 302
    refused = ana.post(path, {"text": "três lugares"})
    assert refused.status_code == 429
    assert "Você enviou muitas mensagens" in refused.content.decode()
    assert "três lugares" in refused.content.decode()
    assert ana.post("/t/arena/new/", {"text": "outra"}).status_code == 429
    assert count(arena) == 2


async def test_on_the_socket_it_is_an_error_event_and_the_socket_stays(
    arena: Cast, conversation: Conversation, two: None
) -> None:
    ana = await in_thread(signed_in)(arena, "ana")
    async with page(ana, conversation.pk) as open_page:
        for number in range(3):
            await open_page.send(type="message", text="oi", client_id=str(number))
        error = await open_page.until("error")
    assert (error["code"], error["client_id"]) == ("rate_limited", "2")
    assert "segundos" in error["message"]
    assert await in_thread(count)(arena) == 2


def test_people_do_not_pay_for_each_other(arena: Cast, teatro: Cast, two: None) -> None:
    ana, rita, teo = arena.principal("ana"), arena.principal("rita"), teatro.principal("teo")
    assert [admitted(ana, None) for _ in range(3)] == [True, True, False]
    assert admitted(rita, None)
    assert admitted(teo, None)


def test_visitors_take_no_members_turn(arena: Cast, settings: Any) -> None:
    settings.VISITORS_RATE_PER_MIN = 3
    settings.TENANT_RATE_PER_MIN = 2
    visitor, ana, rita = arena.visitor(), arena.principal("ana"), arena.principal("rita")
    assert [admitted(visitor, None) for _ in range(4)] == [True, True, True, False]
    assert [admitted(ana, None), admitted(rita, None), admitted(ana, None)] == [True, True, False]


def test_a_plan_without_messages(arena: Cast) -> None:
    with arena.scope():
        Tier.objects.update(rate_per_min=0)
    with pytest.raises(Forbidden):
        admitted(arena.principal("ana"), None)


@pytest.mark.parametrize("held", ["open", "closed"])
def test_without_valkey_it_is_as_the_settings_say(
    arena: Cast, conversation: Conversation, two: None, settings: Any, held: str
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    settings.WITHOUT_VALKEY = settings.WITHOUT_VALKEY | {"messages": held}
    answers = [post(arena, conversation, str(n)) for n in range(4)]
    wanted = 202 if held == "open" else 429
    assert {answer.status_code for answer in answers} == {wanted}
    if held == "closed":
        assert answers[0]["Retry-After"] == "60"

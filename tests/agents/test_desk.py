"""The desk: who waits for a person, who sees it, and how a conversation leaves it."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents import desk, selectors, services
from agents.models import Conversation, Message
from boxoffice.audit.models import AuditRecord
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Forbidden, NotFound
from boxoffice.config.devstack.environment import CHECKOUT
from boxoffice.tenancy.models import Tier
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.sockets import signed_in
from tests.support.worker import Worker

pytestmark = pytest.mark.django_db(transaction=True)
DESK = "/t/arena/handoffs/"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def rita(arena: Cast) -> Client:
    client = signed_in(arena, "rita")
    client.cookies["django_language"] = "en"
    return client


def waiting(cast: Cast, name: str, text: str, *, minutes: int, reason: str) -> Conversation:
    """A conversation that was handed over some minutes ago."""
    run = cast.post(name, text)
    with cast.scope():
        rows = Conversation.objects.filter(pk=run.conversation_id)
        rows.update(handoff_at=now() - timedelta(minutes=minutes), handoff_reason=reason)
        return rows.get()


def desk_page(client: Client, **options: Any) -> str:
    answer = client.get(DESK, **options)
    assert answer.status_code == 200
    return answer.content.decode()


def is_waiting(cast: Cast, conversation: Conversation) -> bool:
    with cast.scope():
        return selectors.handoffs().filter(pk=conversation.pk).exists()


def close(client: Client, conversation: Conversation, since: str | None = None) -> Any:
    assert conversation.handoff_at is not None
    data = {"since": conversation.handoff_at.isoformat() if since is None else since}
    return client.post(f"{DESK}{conversation.pk}/close/", data, follow=True)


def test_run_that_a_budget_ends_waits_at_the_desk(
    arena: Cast, worker: Worker, model: ScriptedModel, rita: Client
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=1)
    model.route(lambda body: Reply.tools(("search_events", {}), text="Vou procurar."))
    run = arena.post("ana", "procure para sempre")
    worker.work(run)
    page = desk_page(rita)
    assert f"/t/arena/c/{run.conversation_id}/" in page
    assert "procure para sempre" in page
    assert "took as many steps as it may" in page
    assert "<title>(1) " in page


def test_longest_waiting_stands_first_with_its_fan_reason_time_and_last_words(
    arena: Cast, rita: Client
) -> None:
    waiting(arena, "fabio", "cadê meu ingresso?", minutes=3, reason="same_failure")
    long = waiting(arena, "ana", "quero falar com gente", minutes=130, reason="budget_time")
    arena.post("ana", "ainda espero", long)
    page = desk_page(rita)
    places = [page.index(word) for word in ("quero falar com gente", "cadê meu ingresso?")]
    assert places == sorted(places)
    assert re.search(r"waiting for 2\s+hours, 10\s+minutes", page)
    assert re.search(r"waiting for 3\s+minutes", page)
    assert "<blockquote>ainda espero</blockquote>" in page
    for words in ("ana", "fabio", "kept trying something", "took longer than it may"):
        assert words in page


def test_visitor_waits_without_a_name(arena: Cast, rita: Client) -> None:
    run = arena.post_as(arena.visitor(), "alguém aí?")
    with arena.scope():
        Conversation.objects.filter(pk=run.conversation_id).update(handoff_at=now())
    assert "<strong>Visitor</strong>" in desk_page(rita)


def test_what_a_fan_wrote_is_escaped(arena: Cast, rita: Client) -> None:
    waiting(arena, "ana", "<script>alert(1)</script>", minutes=1, reason="budget_time")
    assert "<script>alert(1)" not in desk_page(rita)


def test_empty_desk_says_so_and_the_navigation_counts_nothing(rita: Client) -> None:
    page = desk_page(rita)
    assert "Nobody waits for a person." in page
    assert re.search(r'id="desk-count"\s+hidden', page)


def test_navigation_of_every_page_shows_the_count_to_those_who_answer(
    arena: Cast, rita: Client
) -> None:
    for minutes in (1, 2):
        waiting(arena, "ana", "oi", minutes=minutes, reason="budget_time")
    for path in ("", "approvals/", "no-such-page/"):
        assert re.search(r'id="desk-count"\s*>2<', rita.get(f"/t/arena/{path}").content.decode())
    ana = signed_in(arena, "ana")
    assert "desk-count" not in ana.get("/t/arena/new/").content.decode()


def test_part_for_the_script_brings_the_count_along(arena: Cast, rita: Client) -> None:
    waiting(arena, "ana", "oi", minutes=1, reason="budget_time")
    part = desk_page(rita, headers=HTMX)
    assert "<html" not in part
    assert 'data-waiting="1"' in part
    assert re.search(r'id="desk-count"\s+hx-swap-oob="true"\s*>1<', part)
    whole = desk_page(rita, headers=HTMX | {"HX-History-Restore-Request": "true"})
    assert "<html" in whole


def test_more_than_a_page_says_how_many_are_behind(
    arena: Cast, rita: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(desk, "SHOWN", 2)
    for minutes in (1, 2, 3, 4):
        waiting(arena, "ana", f"pergunta {minutes}", minutes=minutes, reason="budget_time")
    page = desk_page(rita)
    assert "2 more wait behind these." in page
    assert "<title>(4) " in page
    assert "pergunta 4" in page
    assert "pergunta 1" not in page


def test_number_of_queries_does_not_grow(arena: Cast, rita: Client) -> None:
    counts = []
    for number in (1, 5):
        for minutes in range(number):
            name = "ana" if minutes % 2 else "fabio"
            waiting(arena, name, "oi", minutes=minutes, reason="budget_time")
        with CaptureQueriesContext(
            connection,
        ) as queries:
            desk_page(rita)
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["ana", "fabio"])
def test_desk_does_not_exist_for_fans(arena: Cast, name: str) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=1, reason="budget_time")
    client = signed_in(arena, name)
    assert client.get(DESK).status_code == 404
    assert close(client, conversation).status_code == 404
    assert is_waiting(arena, conversation)


def test_staff_of_another_tenant_find_nothing(arena: Cast, teatro: Cast) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=1, reason="budget_time")
    rui = signed_in(teatro, "rui")
    assert rui.get(DESK).status_code == 404
    assert str(conversation.pk) not in rui.get("/t/teatro/handoffs/").content.decode()
    assert conversation.handoff_at is not None
    path = f"/t/teatro/handoffs/{conversation.pk}/close/"
    assert rui.post(path, {"since": conversation.handoff_at.isoformat()}).status_code == 404
    assert is_waiting(arena, conversation)


def test_visitor_signs_in_first(arena: Cast) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=1, reason="budget_time")
    visitor = Client()
    for answer in (visitor.get(DESK), visitor.post(f"{DESK}{conversation.pk}/close/")):
        assert answer.status_code == 302
        assert answer["Location"] == f"/accounts/login/?next={DESK}"
    # The list that asks for itself must not be replaced by a sign-in form.
    part = visitor.get(DESK, headers=HTMX)
    assert (part.status_code, part["HX-Refresh"]) == (200, "true")
    assert is_waiting(arena, conversation)


def test_dealt_with_leaves_the_desk_once_and_is_written_down(arena: Cast, rita: Client) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=5, reason="budget_cost")
    assert "Dealt with." in close(rita, conversation).content.decode()
    assert "Somebody else has dealt with this" in close(rita, conversation).content.decode()
    assert not is_waiting(arena, conversation)
    with arena.scope():
        written = AuditRecord.objects.get(action="agents.handoff.closed")
        assert not Message.objects.filter(speaker="human").exists()
    assert written.actor == f"user:{arena.user('rita').pk}"
    assert written.target == str(conversation.pk)
    assert written.details["reason"] == "budget_cost"


@pytest.mark.parametrize(
    "since", ["", "yesterday", "2026-02-31T10:00:00+00:00", "2026-11-30T10:00"]
)
def test_close_without_a_known_handoff_changes_nothing(
    arena: Cast, rita: Client, since: str
) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=5, reason="budget_cost")
    assert close(rita, conversation, since).status_code == 200
    assert is_waiting(arena, conversation)


def test_later_handoff_stays_when_an_earlier_one_is_closed(arena: Cast, rita: Client) -> None:
    old = waiting(arena, "ana", "oi", minutes=5, reason="budget_cost")
    with arena.scope():
        Conversation.objects.filter(pk=old.pk).update(handoff_at=now())
    close(rita, old)
    assert is_waiting(arena, old)


def test_answer_takes_the_conversation_off_the_desk(arena: Cast, rita: Client) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=5, reason="budget_cost")
    path = f"/t/arena/c/{conversation.pk}/"
    assert "has been waiting for a person for 5" in rita.get(path).content.decode()
    rita.post(path, {"text": "Já resolvo."})
    assert not is_waiting(arena, conversation)
    assert "waiting for a person for" not in rita.get(path).content.decode()


def test_service_refuses_who_may_not_answer(arena: Cast) -> None:
    conversation = waiting(arena, "ana", "oi", minutes=5, reason="budget_cost")
    since = conversation.handoff_at
    assert since is not None
    for name, error in (("fabio", NotFound), ("ana", Forbidden)):
        with arena.scope(), pytest.raises(error):
            services.handoff_close(
                principal=arena.principal(name), conversation_id=conversation.pk, since=since
            )
    assert is_waiting(arena, conversation)


def test_every_reason_of_the_loop_has_its_words() -> None:
    source = "".join(path.read_text() for path in Path(CHECKOUT / "agents/loop").glob("*.py"))
    reasons = r'"(budget_\w+|same_failure|no_progress|outcome_unknown|gave_up)"'
    named = set(re.findall(reasons, source))
    assert named
    assert named == set(desk.REASONS)

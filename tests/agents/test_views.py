"""The chat pages: who sees what, posting without a script, the timeline as data."""

import json
import re
from typing import Any

import pytest
from django.test import Client

from agents import services
from agents.models import Conversation, Message, Run, RunState, Step, StepKind
from agents.timeline import timeline_of
from boxoffice.common.clock import now
from boxoffice.common.transitions import transition
from tests.support.cast import Cast
from tests.support.sockets import signed_in
from tools.models import CALL_MACHINE, CallState, ToolCall

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ana(arena: Cast) -> Client:
    return signed_in(arena, "ana")


def block(response: Any, name: str) -> Any:
    """What the page gives to its script."""
    pattern = rf'<script id="{name}" type="application/json">(.*?)</script>'
    found = re.search(pattern, response.content.decode(), re.DOTALL)
    assert found is not None
    return json.loads(found.group(1))


def say(client: Client, path: str, text: str, **data: str) -> Any:
    return client.post(path, {"text": text, **data})


def test_first_visit_offers_a_start_and_makes_nothing(arena: Cast, ana: Client) -> None:
    response = ana.get("/t/arena/")
    assert response.status_code == 200
    assert block(response, "config")["conversation"] is None
    with arena.scope():
        assert not Conversation.objects.exists()


def test_first_message_opens_the_conversation_and_queues_its_run(arena: Cast, ana: Client) -> None:
    response = say(ana, "/t/arena/new/", "dois assentos", client_id="first")
    with arena.scope():
        conversation = Conversation.objects.get()
        run = Run.objects.get()
    assert response.status_code == 302
    assert response["Location"] == f"/t/arena/c/{conversation.pk}/"
    assert (run.conversation_id, run.state) == (conversation.pk, RunState.QUEUED)
    assert ana.get("/t/arena/")["Location"] == response["Location"]


def test_first_message_sent_twice_opens_one_conversation(arena: Cast, ana: Client) -> None:
    first = say(ana, "/t/arena/new/", "oi", client_id="once")
    second = say(ana, "/t/arena/new/", "oi", client_id="once")
    assert first["Location"] == second["Location"]
    with arena.scope():
        assert (Conversation.objects.count(), Message.objects.count()) == (1, 1)


@pytest.mark.parametrize("text", ["", "   ", "a" * 8_001])
def test_refused_message_keeps_the_draft_and_stores_nothing(
    arena: Cast, ana: Client, text: str
) -> None:
    response = say(ana, "/t/arena/new/", text)
    assert response.status_code == 422
    assert 'role="alert"' in response.content.decode()
    assert text.strip() in response.content.decode()
    with arena.scope():
        assert not Conversation.objects.exists()


def test_message_without_a_script(arena: Cast, ana: Client) -> None:
    conversation = arena.conversation("ana")
    path = f"/t/arena/c/{conversation.pk}/"
    assert say(ana, path, "sem script")["Location"] == path
    assert "sem script" in ana.get(path).content.decode()


def test_text_is_escaped(arena: Cast, ana: Client) -> None:
    path = say(ana, "/t/arena/new/", "<script>alert(1)</script>&amp;")["Location"]
    page = ana.get(path).content.decode()
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;" in page


@pytest.mark.parametrize("name", ["fabio", None])
def test_conversation_of_somebody_else_is_not_found(arena: Cast, name: str | None) -> None:
    conversation = arena.conversation("ana")
    other = Client() if name is None else signed_in(arena, name)
    for path in ("", "timeline/"):
        assert other.get(f"/t/arena/c/{conversation.pk}/{path}").status_code == 404
    assert say(other, f"/t/arena/c/{conversation.pk}/", "oi").status_code == 404
    with arena.scope():
        assert not Message.objects.exists()


def test_member_of_another_tenant_finds_nothing(arena: Cast, teatro: Cast) -> None:
    conversation = arena.conversation("ana")
    teo = signed_in(teatro, "teo")
    for path in ("", "new/", f"c/{conversation.pk}/", f"c/{conversation.pk}/timeline/"):
        assert teo.get(f"/t/arena/{path}").status_code == 404
    assert teo.get(f"/t/teatro/c/{conversation.pk}/").status_code == 404


@pytest.mark.parametrize(
    "path", ["/t/arena/c/01a22d06-0000-7000-8000-000000000000/", "/t/arena/nothing/", "/t/nowhere/"]
)
def test_what_does_not_exist_is_said_in_the_page(ana: Client, path: str) -> None:
    response = ana.get(path)
    assert response.status_code == 404
    assert "Esta página não existe" in response.content.decode()


def test_reviewer_reads_a_fans_conversation_and_answers_in_it(arena: Cast) -> None:
    conversation = arena.conversation("ana")
    rita = signed_in(arena, "rita")
    path = f"/t/arena/c/{conversation.pk}/"
    assert block(rita.get(path), "config")["is_owner"] is False
    say(rita, path, "Posso ajudar?")
    with arena.scope():
        message = Message.objects.get()
    assert (message.speaker, message.run_id) == ("human", None)


def test_visitor_gets_a_conversation_of_their_own(arena: Cast) -> None:
    visitor, stranger = Client(), Client()
    page = visitor.get("/t/arena/").content.decode()
    assert "/accounts/login/?next=/t/arena/" in page
    path = say(visitor, "/t/arena/new/", "o que tem hoje?")["Location"]
    assert visitor.get(path).status_code == 200
    assert stranger.get(path).status_code == 404


def test_page_has_no_inline_code_and_a_policy(ana: Client) -> None:
    response = ana.get("/t/arena/")
    page = response.content.decode()
    assert "script-src 'self' 'nonce-" in response["Content-Security-Policy"]
    assert not re.search(r"\son\w+=|\sstyle=|javascript:", page)
    for script in re.findall(r"<script[^>]*>", page):
        assert "nonce=" in script or 'type="application/json"' in script


@pytest.mark.parametrize(("language", "word"), [("pt-br", "Nova conversa"), ("en", "New convers")])
def test_page_speaks_the_chosen_language(ana: Client, language: str, word: str) -> None:
    ana.post("/i18n/setlang/", {"language": language, "next": "/t/arena/"})
    assert word in ana.get("/t/arena/").content.decode()


def test_demo_label_goes_with_a_key(ana: Client, settings: Any) -> None:
    assert 'class="badge warn"' in ana.get("/t/arena/").content.decode()
    settings.ANTHROPIC_API_KEY = "k"
    assert 'class="badge warn"' not in ana.get("/t/arena/").content.decode()


class Story:
    """Steps of a run, written by hand."""

    def __init__(self, cast: Cast, run: Run) -> None:
        self.cast = cast
        self.run = run
        self.seq = 1

    def step(self, kind: str, **content: Any) -> Step:
        self.seq += 1
        Run.objects.filter(pk=self.run.pk).update(last_seq=self.seq)
        return Step.objects.create(run=self.run, seq=self.seq, epoch=0, kind=kind, content=content)

    def call(self, tool: str, state: str = "succeeded", **changes: Any) -> ToolCall:
        call = ToolCall.objects.create(
            call_id=tool,
            origin="test",
            run_ref=self.run.pk,
            conversation_ref=self.run.conversation_id,
            tool=tool,
            arguments={"hold_id": "h"},
            args_hash="0" * 64,
            idempotency_key=f"{self.run.pk}:{tool}",
        )
        rows = ToolCall.objects.filter(pk=call.pk)
        transition(rows, CALL_MACHINE, CallState.RUNNING)
        if state != CallState.RUNNING:
            transition(rows, CALL_MACHINE, CallState(state), **changes)
        return call

    def model(self, text: str, *calls: ToolCall) -> None:
        blocks = [{"type": "text", "text": text}]
        self.step(StepKind.MODEL, blocks=blocks, calls=[str(call.pk) for call in calls])


@pytest.fixture
def story(arena: Cast) -> Story:
    return Story(arena, arena.post("ana", "dois assentos"))


def drawn(story: Story) -> list[dict[str, Any]]:
    with story.cast.scope():
        conversation = Conversation.objects.get(pk=story.run.conversation_id)
        return list(timeline_of(conversation)["entries"])


def test_timeline_shows_committed_steps_of_an_unfinished_run(story: Story) -> None:
    with story.cast.scope():
        done = story.call("search_events", result={"events": []})
        failed = story.call("hold_seats", "failed", error={"code": "x", "message": "Sumiu."})
        open_call = story.call("search_seats", "running")
        story.model("Vou procurar.", done, failed, open_call)
    message, run = drawn(story)
    assert (message["kind"], message["text"], message["run"]) == (
        "message",
        "dois assentos",
        str(story.run.pk),
    )
    assert (run["state"], run["is_over"], run["last_step"]) == ("queued", False, 2)
    text, *tools = run["parts"]
    assert (text["text"], text["step"]) == ("Vou procurar.", 2)
    assert [(tool["tool"], tool["state"], tool["summary"]) for tool in tools] == [
        ("search_events", "succeeded", ""),
        ("hold_seats", "failed", "Sumiu."),
        ("search_seats", "running", ""),
    ]
    assert tools[0]["data"] == {"events": []}
    assert tools[2]["data"] is None


def test_timeline_puts_what_was_said_meanwhile_where_it_was_taken_up(story: Story) -> None:
    with story.cast.scope():
        later = services.message_post(
            principal=story.cast.principal("ana"),
            conversation_id=story.run.conversation_id,
            text="melhor três",
        )
        story.model("Para dois.")
        taken = [{"id": str(later.message.pk), "text": "melhor três"}]
        story.step(StepKind.INPUT, messages=taken)
        story.model("Para três.")
    shown = [
        entry["text"] if entry["kind"] == "message" else [part["text"] for part in entry["parts"]]
        for entry in drawn(story)
    ]
    assert shown == ["dois assentos", ["Para dois."], "melhor três", ["Para três."]]


def test_timeline_shows_a_message_that_nobody_has_taken_up_last(story: Story) -> None:
    with story.cast.scope():
        story.model("Já vou.")
        services.message_post(
            principal=story.cast.principal("ana"),
            conversation_id=story.run.conversation_id,
            text="ainda aí?",
        )
    assert [entry.get("text") for entry in drawn(story)] == ["dois assentos", None, "ainda aí?"]


def test_timeline_says_the_end_of_a_partial_answer_once(story: Story) -> None:
    with story.cast.scope():
        story.model("Primeira parte.")
        story.step(
            StepKind.FINAL,
            state="partial",
            answer="Primeira parte.\n\nUma pessoa continua.",
            handoff="budget_steps",
        )
    run = drawn(story)[-1]
    assert [part["text"] for part in run["parts"]] == ["Primeira parte.", "Uma pessoa continua."]
    assert run["handoff"] is True


def test_timeline_takes_the_same_number_of_queries_however_long(
    arena: Cast, django_assert_max_num_queries: Any
) -> None:
    conversation = arena.conversation("ana")
    with arena.scope():
        for number in range(6):
            run = arena.post("ana", f"pergunta {number}", conversation)
            story = Story(arena, run)
            story.model("Resposta.", story.call("search_events", result={}))
            Run.objects.filter(pk=run.pk).update(state="cancelled", finished_at=now())
        with django_assert_max_num_queries(5):
            timeline = timeline_of(conversation)
    assert len(timeline["entries"]) == 12


def test_timeline_as_data(ana: Client, story: Story) -> None:
    answer = ana.get(f"/t/arena/c/{story.run.conversation_id}/timeline/")
    assert answer["Content-Type"] == "application/json"
    assert [entry["kind"] for entry in answer.json()["entries"]] == ["message", "run"]

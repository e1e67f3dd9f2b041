"""What a step keeps of the request that it answers."""

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any
from unittest import mock

import psycopg
import pytest
from django.db import DatabaseError, transaction

from agents.context.history import History
from agents.context.request import (
    MAX_KNOWN,
    _known,
    request_build,
    sent_whole,
    split_system,
)
from agents.leases import LeaseLost, run_claim, unit
from agents.models import PromptVersion, Step, StepKind
from boxoffice.common.clock import now
from boxoffice.tenancy.models import Tier
from tests.support.cast import Cast
from tests.support.scripted_model import Reply, ScriptedModel, searches
from tests.support.worker import Worker
from tools import registry


@pytest.fixture
def messages() -> Iterator[list[str]]:
    """Every message sent to the database."""
    sent: list[str] = []
    real: Callable[..., Any] = psycopg.Cursor.execute

    def noted(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        sent.append(query if isinstance(query, str) else query.as_string(self))
        return real(self, query, *args, **options)

    with mock.patch.object(psycopg.Cursor, "execute", noted):
        yield sent


def model_steps(arena: Cast) -> list[Step]:
    """With all that was sent, also what each keeps as the one before it."""
    with arena.scope():
        steps = list(Step.objects.filter(kind=StepKind.MODEL).order_by("run_id", "seq"))
    for _, of_run in groupby(steps, key=lambda step: step.run_id):
        sent_whole(of_run)
    return steps


def search(model: ScriptedModel) -> None:
    model.script([Reply.tools(("search_events", {})), Reply.text("Nada.")])


def test_a_step_names_its_prompt_and_the_prompt_is_kept_as_it_was_sent(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    search(model)
    worker.work(arena.post("ana", "o que tem?"))
    steps = model_steps(arena)
    request = model.requests[0]
    with arena.scope():
        prompt = PromptVersion.objects.get()
    assert [step.sent["prompt"] for step in steps] == [prompt.digest] * 2
    assert prompt.model == request["model"]
    for step in steps:
        assert prompt.system + step.sent["rest"] == request["system"]
        assert "Today" not in json.dumps(prompt.system)
    assert [tool["offer"] for tool in prompt.tools] == request["tools"]
    assert [tool["version"] for tool in prompt.tools] == [
        registry.find(tool["name"]).version for tool in prompt.tools
    ]
    assert [step.sent["max_tokens"] for step in steps] == [
        asked["max_tokens"] for asked in model.requests
    ]
    assert steps[0].sent["history"] != steps[1].sent["history"]


def test_a_prompt_is_written_once_and_costs_a_step_no_message(
    arena: Cast, worker: Worker, model: ScriptedModel, messages: list[str]
) -> None:
    search(model)
    worker.work(arena.post("ana", "o que tem?"))
    writes = [text for text in messages if '"agents_promptversion"' in text]
    assert len(writes) == 1
    assert 'INTO "agents_step"' in writes[0]
    search(model)
    worker.work(arena.post("ana", "e agora?"))
    assert [text for text in messages if '"agents_promptversion"' in text] == writes


def test_another_worker_writes_the_same_prompt_again_without_a_second_row(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    for _ in range(2):
        search(model)
        worker.work(arena.post("ana", "o que tem?"))
        _known.clear()
    with arena.scope():
        assert PromptVersion.objects.count() == 1


def test_another_tier_language_or_model_is_another_prompt(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    for name in ("ana", "fabio"):
        model.script([Reply.text("Olá.")])
        worker.work(arena.post(name, "oi"))
    with arena.scope():
        Tier.objects.filter(slug="pro").update(model_alias="claude-opus-4-7")
    model.script([Reply.text("Olá.")])
    worker.work(arena.post("ana", "oi"))
    with arena.scope():
        assert PromptVersion.objects.count() == 3


def test_a_last_step_was_offered_no_tools(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=2)
    search(model)
    worker.work(arena.post("ana", "o que tem?"))
    first, last = model_steps(arena)
    with arena.scope():
        assert PromptVersion.objects.get(digest=first.sent["prompt"]).tools
        assert PromptVersion.objects.get(digest=last.sent["prompt"]).tools == []


def test_what_a_step_keeps_does_not_grow_with_its_run(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    with arena.scope():
        Tier.objects.filter(slug="pro").update(max_steps=12)
    model.script([*searches(9), Reply.text("Fim.")])
    worker.work(arena.post("ana", "procure muito"))
    with arena.scope():
        kept = list(Step.objects.filter(kind=StepKind.MODEL).order_by("seq"))
    first, *others = [len(json.dumps(step.sent)) for step in kept]
    assert len(others) == 9
    assert first < 400
    assert max(others) - min(others) < 10
    assert max(others) < 100


def test_a_step_that_is_rolled_back_is_not_the_step_before(arena: Cast) -> None:
    """The next one that is kept says all by itself."""
    run = arena.post("ana", "oi")
    with arena.scope():
        lease = run_claim(owner="test", run_id=run.pk)
        assert lease is not None
        with pytest.raises(LeaseLost), unit(lease):
            lease.seq, lease.sent = 9, {"prompt": "p"}
            raise LeaseLost
    assert (lease.seq, lease.sent) == (1, {})


def test_a_history_is_named_by_what_is_in_it() -> None:
    def digest(*blocks: dict[str, Any]) -> str:
        history = History()
        history.user_text("oi")
        for block in blocks:
            history.assistant([block])
        return history.digest

    def use(arguments: dict[str, Any]) -> dict[str, Any]:
        return {"type": "tool_use", "id": "c", "name": "t", "input": arguments}

    assert digest(use({"a": 1, "b": 2})) == digest(use({"b": 2, "a": 1}))
    assert digest(use({"a": 1})) != digest(use({"a": 2}))
    assert digest() != digest(use({}))


def test_only_what_is_cached_is_part_of_the_version() -> None:
    cached = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    other = {"type": "text", "text": "b"}
    assert split_system([other, cached, other]) == ([other, cached], [other])
    assert split_system([other]) == ([], [other])


def test_a_prompt_version_stays_as_it_is(arena: Cast) -> None:
    with arena.scope():
        PromptVersion.objects.create(digest="d", model="m", system=[], tools=[])
        for change in (
            lambda: PromptVersion.objects.update(model="n"),
            lambda: PromptVersion.objects.all().delete(),
        ):
            with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
                change()


def test_what_is_known_to_be_written_is_bounded(
    arena: Cast, worker: Worker, model: ScriptedModel
) -> None:
    _known.update((arena.tenant.pk, str(number)) for number in range(MAX_KNOWN))
    model.script([Reply.text("Olá.")])
    worker.work(arena.post("ana", "oi"))
    assert len(_known) == 1


def test_a_request_is_what_its_history_and_offer_say() -> None:
    history = History()
    history.user_text("oi")
    request, sent = request_build(
        model="m", system=[], tools=[], history=history, max_tokens=7, as_of=now()
    )
    assert (request.model, request.tools, request.max_tokens) == ("m", [], 7)
    assert request.messages == history.messages
    assert sent.history == history.digest

"""The API does what its schema says, whatever is sent to it (schemathesis)."""

from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
import schemathesis
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from django.test import Client
from hypothesis import HealthCheck, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from agents.models import Replay
from approvals.services import request_create
from tests.support.cast import Cast, make_cast

EXAMPLES = {GenerationMode.POSITIVE: 15, GenerationMode.NEGATIVE: 10}
# What is refused here depends on more than the words of a schema can say: a fan confirms a call
# as it stands, and days are those of two centuries.
REFUSES_MORE = {"POST /api/v1/approvals/{request_id}/approve/", "GET /api/v1/events/"}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def house(db: None) -> Iterator[None]:
    """The test's one transaction stays open over all requests."""
    ends = (signals.request_started, signals.request_finished)
    for end in ends:
        end.disconnect(close_old_connections)
    yield
    for end in ends:
        end.connect(close_old_connections)


@pytest.fixture
def arena(house: None) -> Cast:
    return make_cast("arena")


@pytest.fixture
def token(arena: Cast) -> str:
    return arena.token("ana")


@pytest.fixture
def known_ids(arena: Cast) -> dict[str, UUID]:
    """What is ana's, by the names of path parameters."""
    run = arena.post("ana", "oi")
    with arena.scope(), transaction.atomic():
        request = request_create(
            action="place_order",
            arguments={"hold_id": "h"},
            gate="fan",
            requested_for_id=arena.user("ana").pk,
            reason="",
            preview=None,
            binding_hash="0" * 64,
            reference={"run": str(run.pk), "conversation": str(run.conversation_id)},
            risk="destructive",
            rule="tool",
        )
    with arena.scope():
        replay = Replay.objects.create(run=run, from_step=1, asked_by=arena.user("ada"))
    return {
        "replay_id": replay.pk,
        "call_id": uuid4(),
        "undo_id": uuid4(),
        "conversation_id": run.conversation_id,
        "run_id": run.pk,
        "request_id": request.pk,
        "event_id": arena.seats.event.pk,
    }


@pytest.fixture
def schema(arena: Cast) -> Any:
    return schemathesis.openapi.from_wsgi("/api/schema/", get_wsgi_application())


def headers_of(token: str) -> dict[str, str]:
    # An event stream of a run that nobody works on has no end.
    return {"Authorization": f"Bearer {token}", "Accept": "application/json"}


def examples_of(operation: Any, mode: GenerationMode, ask: Callable[[Any], None]) -> None:
    """Ask with examples of an operation; each finds the house as it was."""

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES[mode],
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def one(case: Any) -> None:
        with transaction.atomic():
            ask(case)
            transaction.set_rollback(True)

    one()


def test_what_is_sent_by_the_schema_is_answered_by_it(
    schema: Any, token: str, known_ids: dict[str, UUID], subtests: pytest.Subtests
) -> None:
    def ask(case: Any) -> None:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = str(known_ids[name])
        refuses = case.operation.label in REFUSES_MORE
        excluded = [positive_data_acceptance] if refuses else []
        case.call_and_validate(headers=headers_of(token), excluded_checks=excluded)

    for result in schema.get_all_operations():
        operation = result.ok()
        with subtests.test(operation.label):
            examples_of(operation, GenerationMode.POSITIVE, ask)


def test_what_breaks_the_schema_is_refused_as_it_says(
    schema: Any, token: str, subtests: pytest.Subtests
) -> None:
    def ask(case: Any) -> None:
        case.call_and_validate(headers=headers_of(token))

    for result in schema.get_all_operations():
        operation = result.ok()
        with subtests.test(operation.label):
            examples_of(operation, GenerationMode.NEGATIVE, ask)


def test_the_schema_is_served_without_signing_in_and_names_every_door(db: None) -> None:
    reply = Client().get("/api/schema/", headers={"Accept": "application/json"})
    assert reply.status_code == 200
    body = reply.json()
    assert {path for path in body["paths"] if not path.startswith("/api/v1/")} == set()
    operations = [operation for methods in body["paths"].values() for operation in methods.values()]
    assert len(operations) >= 20
    names = [operation["operationId"] for operation in operations]
    assert len(set(names)) == len(names)
    for operation in operations:
        assert {"bearer": []} in operation["security"], operation["operationId"]
        for status, response in operation["responses"].items():
            if status >= "400":
                assert list(response["content"]) == ["application/problem+json"]
    assert set(body["components"]["securitySchemes"]) == {"bearer", "session"}
    assert body["servers"] == [
        {"url": "/t/{tenant}", "variables": {"tenant": {"default": "arena"}}}
    ]

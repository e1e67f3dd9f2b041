"""Two box offices side by side in which everything has happened that can happen."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest
from django.core.management import call_command
from django.test import Client, override_settings
from pytest_django import DjangoDbBlocker

from agents import handout
from agents.models import Conversation, Replay, Run
from approvals import services as approvals
from approvals.models import ApprovalRequest
from approvals.policies import versions
from boxoffice.audit import chain
from boxoffice.common.clock import now
from boxoffice.ticketing.models import Hold, Order
from tests.support.cast import Cast, make_cast
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.worker import Worker
from tools.models import SavedView, StoredOutput, ToolCall, ToolSwitch, Undo, UndoReason


@dataclass
class Life:
    """One box office after a while. ``ids`` are named like the parts of addresses."""

    cast: Cast
    fan: str
    reviewer: str
    ids: dict[str, UUID]
    confirmation: UUID

    @property
    def slug(self) -> str:
        """The tenant's name in addresses."""
        return self.cast.tenant.slug


def by_session(cast: Cast, name: str) -> Client:
    """A browser in which somebody has signed in."""
    client = Client(raise_request_exception=False)
    client.force_login(cast.user(name))
    return client


def by_token(cast: Cast, name: str) -> Client:
    """A program with a token of ``cast``."""
    headers = {"Authorization": f"Bearer {cast.token(name)}"}
    return Client(raise_request_exception=False, headers=headers)


class Story:
    """Plays a fan, the agent and a reviewer, step by step."""

    def __init__(self, cast: Cast, worker: Worker, model: ScriptedModel, fan: str) -> None:
        self.cast = cast
        self.worker = worker
        self.model = model
        self.fan = fan
        self.conversation = cast.conversation(fan)

    def says(
        self, tool: str, arguments: dict[str, Any], conversation: Conversation | None = None
    ) -> Run:
        """The fan says something, and the agent proposes one call."""
        self.model.reset()  # a run that still waits has not used its last reply
        self.model.script([Reply.tools((tool, arguments)), Reply.text("Certo.")])
        run = self.cast.post(self.fan, tool, conversation or self.conversation)
        self.worker.work(run)
        return run

    def waits(self, run: Run) -> ApprovalRequest:
        """The request that a run waits for."""
        with self.cast.scope():
            return ApprovalRequest.objects.get(run_ref=run.pk, state="pending")

    def approved(self, run: Run, by: str) -> None:
        """Somebody approves what the run waits for, and it goes on."""
        with self.cast.scope():
            principal = self.cast.principal(by)
            approvals.approve(request_id=self.waits(run).pk, principal=principal)
        self.worker.work(run)


def live(cast: Cast, worker: Worker, model: ScriptedModel, fan: str, reviewer: str) -> Life:
    """A hold, an order, a refund, a letter, a ticket; and two requests that still wait."""
    story = Story(cast, worker, model, fan)
    event = str(cast.seats.event.pk)

    def hold(*names: str) -> str:
        seats = [str(pk) for pk in cast.seats.ids(*names)]
        story.says("hold_seats", {"event_id": event, "seat_ids": seats})
        with cast.scope():
            return str(Hold.objects.order_by("-id")[0].pk)

    for names in (("P-A1", "P-A2"), ("P-A3", "P-A4")):
        story.approved(story.says("place_order", {"hold_id": hold(*names)}), fan)
    with cast.scope():
        first, second = (str(order.pk) for order in Order.objects.order_by("id"))
    refund = {"order_id": first, "reason": "não posso ir"}
    story.approved(story.says("refund_order", refund), reviewer)
    letter = {"to": "alguem@example.com", "subject": "Oi", "body": "Até sábado."}
    story.approved(story.says("send_email", letter), reviewer)
    story.says("create_ticket", {"subject": "Rampa", "body": "Há rampa?"})

    # What waits for somebody, each in a conversation of its own.
    confirm = story.says("place_order", {"hold_id": hold("P-B1", "P-B2")}, cast.conversation(fan))
    review = story.says(
        "refund_order", {"order_id": second, "reason": "chuva"}, cast.conversation(fan)
    )
    with cast.scope():
        versions.draft_create(source="rules: []")
        call = ToolCall.objects.filter(tool="hold_seats", state="succeeded").earliest("id")
        undo = Undo.objects.create(
            call=call, run_ref=call.run_ref, reason=UndoReason.CANCELLED, next_attempt_at=now()
        )
        replay = Replay.objects.create(
            run_id=call.run_ref, from_step=2, asked_by=cast.user(reviewer)
        )
        bought = ToolCall.objects.filter(tool="place_order", state="succeeded").earliest("id")
        long = ToolCall.objects.order_by("id")[0]
        ToolSwitch.objects.create(
            tool="create_ticket", is_off=False, reason="de novo", changed_by="user:1"
        )
        SavedView.objects.create(user=cast.user(fan), name="one", wish="")
        StoredOutput.objects.create(call=long, text="{}", total_bytes=2, total_lines=1)
    chain.seal_all()
    made = by_token(cast, fan).post(
        f"/t/{cast.tenant.slug}/api/v1/conversations/",
        {},
        content_type="application/json",
        headers={"Idempotency-Key": "once"},
    )
    assert made.status_code == 201, made.content
    ids = {
        "conversation_id": review.conversation_id,
        "run_id": review.pk,
        "replay_id": replay.pk,
        "request_id": story.waits(review).pk,
        "event_id": cast.seats.event.pk,
        "order_id": UUID(second),
        "call_id": bought.pk,
        "undo_id": undo.pk,
        "hold_id": UUID(hold("P-B3", "P-B4")),
        "seat_id": cast.seats.ids("P-C1")[0],
    }
    return Life(cast, fan, reviewer, ids, story.waits(confirm).pk)


@pytest.fixture(scope="package")
def lives(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[tuple[Life, Life]]:
    """`arena` and `teatro`, committed for all tests of the folder; none of them may change it."""
    with (
        django_db_blocker.unblock(),
        pytest.MonkeyPatch.context() as patch,
        ScriptedModel() as model,
        override_settings(ANTHROPIC_API_KEY="scripted", ANTHROPIC_BASE_URL=model.base_url),
    ):
        patch.setattr(handout, "hand_out", lambda tenant_id, run_id: None)
        worker = Worker()
        arena, teatro = make_cast("arena"), make_cast("teatro")
        yield (
            live(arena, worker, model, "ana", "rita"),
            live(teatro, worker, model, "teo", "rui"),
        )
        worker.runtime.drain()
        call_command("flush", verbosity=0, interactive=False)


@pytest.fixture
def arena(lives: tuple[Life, Life]) -> Life:
    """The box office that is not teo's."""
    return lives[0]


@pytest.fixture
def teatro(lives: tuple[Life, Life]) -> Life:
    """The box office that is teo's."""
    return lives[1]

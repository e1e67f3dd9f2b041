"""Two houses with something of everything, and the people who come to the console."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client
from guardian.shortcuts import assign_perm

from agents.models import Message, PromptVersion, Replay, Speaker, Step
from approvals.models import Decision, Verb
from approvals.policies import versions
from approvals.services import request_create
from boxoffice.audit.models import AuditSeal
from boxoffice.audit.services import record
from boxoffice.billing.services import usage_record
from boxoffice.common.clock import now
from boxoffice.tenancy.models import ApiToken, IdempotencyRecord, Membership, Tier, User
from boxoffice.ticketing.models import (
    Hold,
    Order,
    OutboundEmail,
    Payment,
    Refund,
    SeatClaim,
    SupportTicket,
)
from tests.support.cast import Cast, make_cast
from tools import governance
from tools.models import RemoteEffect, SavedView, StoredOutput, ToolCall, ToolSwitch, Undo


def fill(cast: Cast, owner: User) -> None:
    """One more row of every kind; the tenant's scope is open."""
    run = cast.post(owner.get_username(), "oi")
    event, seat = cast.seats.event, next(iter(cast.seats.seats.values()))
    Step.objects.create(run=run, seq=9, epoch=0, kind="results", content={})
    Replay.objects.create(run=run, from_step=Replay.objects.count() + 1, asked_by=owner)
    PromptVersion.objects.create(digest=uuid4().hex, model="m", system=[], tools=[])
    Message.objects.create(conversation=run.conversation, speaker=Speaker.HUMAN, text="sim")
    hold = Hold.objects.create(event=event, user=owner, expires_at=now())
    order = Order.objects.create(event=event, user=owner, hold=hold, total_minor=24_050)
    SeatClaim.objects.create(
        event=event, seat=seat, hold=hold, order=order, price_minor=24_050, released_at=now()
    )
    money = {"amount_minor": 24_050, "reference": str(uuid4())}
    Payment.objects.create(order=order, provider="demo", provider_id="1", **money)
    Refund.objects.create(order=order, reason="não posso", **money)
    words = {"subject": "oi", "body": "oi", "user": owner}
    SupportTicket.objects.create(reference=str(uuid4()), **words)
    OutboundEmail.objects.create(
        to="a@example.com", message_id=str(uuid4()), next_attempt_at=now(), **words
    )
    call = ToolCall.objects.create(
        call_id="c",
        origin="run",
        run_ref=run.pk,
        user=owner,
        tool="search_events",
        arguments={},
        args_hash="0" * 64,
        idempotency_key=str(uuid4()),
    )
    SavedView.objects.create(user=owner, name=str(uuid4()), wish="state__exact=denied")
    StoredOutput.objects.create(call=call, text="{}", total_bytes=2, total_lines=1)
    ToolSwitch.objects.create(
        tool=f"t-{uuid4().hex[:8]}", is_off=True, reason="um teste", changed_by="user:1"
    )
    RemoteEffect.objects.create(call=call, provider="demo", request={}, sent_at=now())
    Undo.objects.create(
        call=call,
        run_ref=run.pk,
        conversation_ref=run.conversation_id,
        reason="failed",
        next_attempt_at=now(),
    )
    request = request_create(
        action="refund_order",
        arguments={},
        gate="reviewer",
        requested_for_id=owner.pk,
        reason="",
        preview=None,
        binding_hash="0" * 64,
        reference={"call": str(call.pk), "run": str(run.pk)},
        risk="destructive",
        rule="tool",
    )
    reviewer = cast.user(REVIEWERS[cast.tenant.slug])
    Decision.objects.create(request=request, user=reviewer, verb=Verb.APPROVE)
    usage_record(
        user_id=owner.pk, run_id=run.pk, model="claude-opus-4-7", input_tokens=1, output_tokens=1
    )
    record(action="admin.test.made", actor="system:test")
    versions.draft_create(source="rules: []", by=owner)
    number = AuditSeal.objects.count() + 1
    AuditSeal.objects.create(
        number=number, from_position=number, below_position=number + 1, records=1, digest="0" * 64
    )
    expires = now() + timedelta(days=1)
    ApiToken.objects.create(user=owner, digest=uuid4().hex, expires_at=expires)
    IdempotencyRecord.objects.create(
        principal="user:1", key=str(uuid4()), fingerprint="0" * 64, status=201, body={}
    )


REVIEWERS = {"arena": "rita", "teatro": "rui"}
FANS = {"arena": "ana", "teatro": "teo"}


def more(cast: Cast) -> None:
    """Another row of every kind, with another fan."""
    with transaction.atomic(), cast.scope():
        fan = User.objects.create_user(f"fan-{uuid4().hex[:8]}")
        tier = Tier.objects.create(slug=fan.get_username(), name="t", model_alias="m")
        Membership.objects.create(user=fan, tier=tier)
        fill(cast, fan)


@pytest.fixture
def arena(db: None) -> Cast:
    return make_cast("arena")


@pytest.fixture
def teatro(arena: Cast) -> Cast:
    """Both houses, filled; `tina` configures teatro, `ada` arena, `root` is the operator."""
    teatro = make_cast("teatro")
    governance.tools_register()
    tina = User.objects.create_user("tina", is_staff=True)
    with teatro.scope():
        Membership.objects.create(user=tina, tier=Tier.objects.get(slug="pro"), role="admin")
    for right in ("configure", "view_costs", "review_actions", "answer_fans"):
        assign_perm(f"tenancy.{right}", tina, teatro.tenant)
    User.objects.filter(username="ada").update(is_staff=True)
    User.objects.create_superuser("root", is_staff=True)
    for cast in (arena, teatro):
        with transaction.atomic(), cast.scope():
            fill(cast, cast.user(FANS[cast.tenant.slug]))
    return teatro


def console(name: str) -> Client:
    """Somebody at the console."""
    client = Client()
    client.force_login(User.objects.get(username=name))
    return client


def page(client: Client, path: str, **data: Any) -> Any:
    """A page of the console."""
    return client.get(f"/admin/{path}", data)

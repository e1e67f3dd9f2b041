"""A purchase and a refund up to the moment at which the payment provider is asked."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from django.db import transaction

from agents.models import Conversation, Run
from agents.services import run_cancel
from approvals import services as approvals
from boxoffice.ticketing.models import Hold, Order
from boxoffice.ticketing.services.holds import hold_create
from tests.support.acquirer import Acquirer
from tests.support.cast import Cast
from tests.support.dispatching import call_run
from tests.ticketing.buying import order_place
from tools import dispatch, effects, remote
from tools.models import ToolCall
from tools.outcomes import CallReport, Outcome, Sending
from tools.permissions import Caller

SEATS = [f"{s}-{row}{n}" for s in "PB" for row in "ABC" for n in range(1, 9)]


@dataclass
class Buyer:
    """ana, who has been confirmed whatever she asks for; the tenant's scope is open."""

    house: Cast
    seats: Iterator[str]
    acquirer: Acquirer

    @property
    def caller(self) -> Caller:
        """On whose behalf."""
        return Caller(
            tenant_id=self.house.tenant.pk,
            user_id=self.house.user("ana").pk,
            time_zone="America/Sao_Paulo",
            language="pt-br",
        )

    def hold(self) -> Hold:
        """Seats of ana's that nobody had before."""
        ids = self.house.seats.ids(next(self.seats), next(self.seats))
        user_id = self.house.user("ana").pk
        return hold_create(event_id=self.house.seats.event.pk, seat_ids=ids, user_id=user_id)

    def order(self) -> Order:
        """A paid order of ana's, whose charge the provider knows."""
        key = str(uuid4())
        hold = self.hold()
        order = order_place(hold_id=hold.pk, user_id=hold.user_id, payment_key=key)
        self.acquirer.enter(key, order.total_minor)
        return order

    def wish(self, tool: str) -> dict[str, Any]:
        """Arguments with which the tool can do something."""
        if tool == "place_order":
            return {"hold_id": str(self.hold().pk)}
        return {"order_id": str(self.order().pk), "reason": "não posso ir"}

    def proposed(
        self, tool: str, arguments: dict[str, Any] | None = None, run: Run | None = None
    ) -> ToolCall:
        """A call as a model asks for it."""
        (call,) = effects.calls_propose(
            caller=self.caller,
            proposals=[
                effects.Proposal(call_id="c", tool=tool, arguments=arguments or self.wish(tool))
            ],
            origin="test",
            run_id=run.pk if run else uuid4(),
            conversation_id=run.conversation_id if run else uuid4(),
            key_prefix=str(uuid4()),
        )
        return call

    def begun(
        self, tool: str, arguments: dict[str, Any] | None = None, run: Run | None = None
    ) -> CallReport:
        """A call that is approved and begun: the other party is to be asked now."""
        call = self.proposed(tool, arguments, run)
        assert self.again(call.pk).outcome is Outcome.NEEDS_HUMAN
        with transaction.atomic():
            (gated,) = dispatch.calls_gate(call_ids=[call.pk], caller=self.caller, reason="")
        assert gated.approval is not None
        who = "ana" if gated.approval.gate == "fan" else "rita"
        approvals.approve(request_id=gated.approval.pk, principal=self.house.principal(who))
        return self.again(call.pk)

    def again(self, call_id: UUID) -> CallReport:
        """What a worker does that comes to the call."""
        return call_run(call_id=call_id, caller=self.caller)

    def finish(self, report: CallReport) -> ToolCall:
        """Ask, and write down what came of it."""
        sending = sending_in(report)
        return self.conclude(sending, ask(sending))

    def conclude(self, sending: Sending, finding: remote.Finding) -> ToolCall:
        """Write down a finding."""
        remote.conclude(call_id=sending.call_id, finding=finding, caller=self.caller)
        return ToolCall.objects.select_related("approval", "remote_effect").get(pk=sending.call_id)

    def over(self) -> Run:
        """A run of ana's that is over, in a conversation of its own."""
        run = self.house.post("ana", "compre")
        run_cancel(principal=self.house.principal("ana"), run_id=run.pk)
        return Run.objects.select_related("conversation").get(pk=run.pk)


def sending_in(report: CallReport) -> Sending:
    """What is to be asked."""
    assert report.outcome is Outcome.REMOTE
    assert report.sending is not None
    return report.sending


def ask(sending: Sending) -> remote.Finding:
    """Ask in a loop of its own."""
    return asyncio.run(remote.ask(sending))


def said_to(conversation: Conversation) -> list[str]:
    """What the fan was told by the box office."""
    rows = conversation.messages.filter(speaker="human").order_by("id")
    return list(rows.values_list("text", flat=True))

"""What must hold in the database once all is over, whoever died meanwhile.

    assert violations(house) == []

Asked of the rows alone, tenant by tenant. Each finding is a sentence that begins with the
conversation that it is about, where there is one.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.models import Count, F, Q, Sum

from agents.models import RUN_MACHINE, Message, Run, RunState, Speaker, Step, StepKind
from approvals.models import REQUEST_STATES, ApprovalRequest, State
from boxoffice.acquirer.models import Movement
from boxoffice.audit.chain import chain_verify, seal_all
from boxoffice.audit.models import AuditRecord
from boxoffice.billing.models import UsageEntry
from boxoffice.common.clock import now
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import (
    Hold,
    Order,
    OutboundEmail,
    Payment,
    Refund,
    SeatClaim,
    SupportTicket,
)
from boxoffice.ticketing.models.sales import (
    HoldStatus,
    OrderStatus,
    PaymentStatus,
    RefundStatus,
)
from tools.models import CALL_MACHINE, CallState, ToolCall

# A call may end unknown, and a human settles it.
SETTLED = CALL_MACHINE.terminal | {CallState.SUCCEEDED, CallState.UNKNOWN}
HAPPENED = {CallState.SUCCEEDED, CallState.COMPENSATED}
# What a call has come to, by what has become of its approval.
OUTCOMES: dict[str, set[str]] = {
    State.EXECUTED: HAPPENED,
    State.FAILED: {CallState.FAILED, CallState.DENIED},
    State.UNKNOWN: {CallState.UNKNOWN, *HAPPENED, CallState.FAILED},
    State.DENIED: {CallState.DENIED},
    State.EXPIRED: {CallState.DENIED},
    State.WITHDRAWN: {CallState.DENIED},
}
# The rows that a tool's success leaves behind, by the id that its result names.
EFFECTS: dict[str, tuple[Any, str]] = {
    "hold_seats": (Hold, "hold_id"),
    "place_order": (Order, "order_id"),
    "refund_order": (Refund, "refund_id"),
    "send_email": (OutboundEmail, "email_id"),
    "create_ticket": (SupportTicket, "ticket_id"),
}

# What a call that did not succeed may leave behind.
UNDONE: dict[str, set[str]] = {
    "place_order": {OrderStatus.CANCELLED, OrderStatus.PENDING},
    "refund_order": {RefundStatus.FAILED, RefundStatus.PENDING},
}
MONEY: dict[str, str] = {
    OrderStatus.PENDING: PaymentStatus.PENDING,
    OrderStatus.PAID: PaymentStatus.CAPTURED,
    OrderStatus.REFUNDED: PaymentStatus.REFUNDED,
    OrderStatus.CANCELLED: PaymentStatus.FAILED,
}
SOLD = {OrderStatus.PAID, OrderStatus.REFUNDED}
UNPAID = {PaymentStatus.PENDING, PaymentStatus.FAILED}

type Found = Iterator[str]


@dataclass(slots=True)
class Books:
    """The rows of a tenant. ``known`` are the effects that no call has made: a test has."""

    tenant: Tenant
    known: frozenset[UUID]
    runs: dict[UUID, Run] = field(default_factory=dict)
    steps: dict[UUID, list[Step]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[UUID, ToolCall] = field(default_factory=dict)

    @classmethod
    def read(cls, tenant: Tenant, known: frozenset[UUID]) -> "Books":
        """Everything of the open tenant's runs."""
        books = cls(tenant=tenant, known=known)
        books.runs = {run.pk: run for run in Run.objects.all()}
        for step in Step.objects.order_by("run_id", "seq"):
            books.steps[step.run_id].append(step)
        books.calls = {call.pk: call for call in ToolCall.objects.select_related("approval")}
        return books


def violations(tenant: Tenant, *, known: frozenset[UUID] = frozenset()) -> list[str]:
    """What does not hold in the tenant; nothing when all is well.

    ``known`` are the ids of holds, orders, … that were made without a call.
    """
    seal_all()
    with tenant_scope(tenant.pk):
        books = Books.read(tenant, known)
        return [found for check in CHECKS for found in check(books)]


def runs_are_over(books: Books) -> Found:
    """None is at work, queued, or waiting for nobody; none keeps a lease."""
    for run in books.runs.values():
        if run.state not in RUN_MACHINE.terminal:
            yield f"{run.conversation_id}: run {run.pk} is left {run.state}"
        elif run.lease_owner or run.lease_until is not None:
            yield f"{run.conversation_id}: run {run.pk} is {run.state} and keeps a lease"
        elif run.finished_at is None:
            yield f"{run.conversation_id}: run {run.pk} is {run.state} without a time"


def steps_are_whole(books: Books) -> Found:
    """Numbered without a gap, epochs rise, and the end is the end."""
    for run in books.runs.values():
        steps = books.steps[run.pk]
        where = f"{run.conversation_id}: run {run.pk}"
        if [step.seq for step in steps] != list(range(1, run.last_seq + 1)):
            yield f"{where} has steps {[step.seq for step in steps]}, not up to {run.last_seq}"
        epochs = [step.epoch for step in steps]
        if epochs != sorted(epochs):
            yield f"{where} has a step of an epoch that was over: {epochs}"
        ends = [step.seq for step in steps if step.kind == StepKind.FINAL]
        if run.state in RUN_MACHINE.terminal and ends[:1] == []:
            yield f"{where} has no last step"
        elif len(ends) > 1:
            yield f"{where} has ended {len(ends)} times"


def turns_are_answered(books: Books) -> Found:
    """In a run that came to its answer, each turn that asked for calls has their results, once."""
    for run in books.runs.values():
        if run.state != RunState.SUCCEEDED:
            continue
        asked = [s.content["calls"] for s in books.steps[run.pk] if s.kind == StepKind.MODEL]
        given = [s.content["calls"] for s in books.steps[run.pk] if s.kind == StepKind.RESULTS]
        if [calls for calls in asked if calls] != given:
            yield f"{run.conversation_id}: run {run.pk} asked for {asked} and was given {given}"


def messages_are_said_once(books: Books) -> Found:
    """A fan's message is taken up by one step; a run gives one answer."""
    taken = Counter(
        message["id"]
        for steps in books.steps.values()
        for step in steps
        if step.kind == StepKind.INPUT
        for message in step.content["messages"]
    )
    for message in Message.objects.filter(speaker=Speaker.FAN):
        count = taken.pop(str(message.pk), 0)
        run = books.runs[message.run_id] if message.run_id else None
        is_answered = run is not None and run.state == RunState.SUCCEEDED
        if count > 1 or (is_answered and count != 1):
            yield f"{message.conversation_id}: message {message.pk} was taken up {count} times"
        if message.taken_at is None:
            yield f"{message.conversation_id}: message {message.pk} was left lying"
    if taken:
        yield f"steps have taken up messages that nobody wrote: {sorted(taken)}"
    answers = Counter(
        Message.objects.filter(speaker=Speaker.ASSISTANT).values_list("run_id", flat=True)
    )
    for run in books.runs.values():
        if answers[run.pk] > 1 or (run.state == RunState.SUCCEEDED and answers[run.pk] != 1):
            yield f"{run.conversation_id}: run {run.pk} has given {answers[run.pk]} answers"


def ledger_is_complete(books: Books) -> Found:
    """Every call that a step proposed is in the ledger, and nothing else is of a run."""
    proposed: Counter[UUID] = Counter()
    for steps in books.steps.values():
        for step in steps:
            if step.kind != StepKind.MODEL:
                continue
            blocks = [one for one in step.content["blocks"] if one["type"] == "tool_use"]
            listed = step.content["calls"]
            if listed and len(blocks) != len(listed):
                yield f"step {step.pk} proposed {len(blocks)} calls and lists {len(listed)}"
            proposed.update(UUID(call_id) for call_id in listed)
    for call_id, count in proposed.items():
        if call_id not in books.calls or count > 1:
            yield f"call {call_id} is in {count} steps, and in the ledger: {call_id in books.calls}"
    for call in books.calls.values():
        is_of_a_run = call.run_ref is not None and call.origin.startswith("run:")
        if is_of_a_run and call.pk not in proposed:
            yield f"{call.conversation_ref}: call {call.pk} ({call.tool}) was proposed by no step"


def calls_are_final(books: Books) -> Found:
    """Once its run is over, a call is final or unknown."""
    for call in books.calls.values():
        run = books.runs.get(call.run_ref) if call.run_ref else None
        if run is not None and run.state not in RUN_MACHINE.terminal:
            continue
        where = f"{call.conversation_ref}: call {call.pk} ({call.tool})"
        if call.state not in SETTLED:
            yield f"{where} is left {call.state}"
        elif call.state in HAPPENED and call.result is None:
            yield f"{where} is {call.state} without a result"
        elif call.finished_at is None and call.state != CallState.UNKNOWN:
            yield f"{where} is {call.state} without a time"


def approvals_are_used_up(books: Books) -> Found:
    """A request that is over says what came of it, and its call says the same."""
    calls: dict[UUID, list[ToolCall]] = defaultdict(list)
    for call in books.calls.values():
        if call.approval_id is not None:
            calls[call.approval_id].append(call)
    for request in ApprovalRequest.objects.all():
        where = f"{request.conversation_ref}: request {request.pk} ({request.action})"
        of_request = calls[request.pk]
        if len(of_request) != 1:
            yield f"{where} has {len(of_request)} calls"
            continue
        (call,) = of_request
        run = books.runs.get(call.run_ref) if call.run_ref else None
        if run is not None and run.state not in RUN_MACHINE.terminal:
            continue
        if request.state not in REQUEST_STATES.terminal:
            yield f"{where} is left {request.state}"
        elif call.state not in OUTCOMES[request.state]:
            yield f"{where} is {request.state}, and its call {call.state}"


def effects_happened_once(books: Books) -> Found:
    """What a tool leaves behind is there once for each call that succeeded, and for no other."""
    for tool, (model, name) in EFFECTS.items():
        rows = model.objects.all()
        if tool in UNDONE:
            rows = rows.exclude(status__in=UNDONE[tool])
        made = set(rows.values_list("pk", flat=True)) - books.known
        named: Counter[UUID] = Counter()
        for call in books.calls.values():
            if call.tool == tool and call.state in HAPPENED and call.result is not None:
                named[UUID(call.result[name])] += 1
        for pk in made - set(named):
            yield f"{tool}: {model.__name__} {pk} was made, and no call says so"
        for pk, count in named.items():
            if pk not in made:
                yield f"{tool}: a call says that it made {model.__name__} {pk}, which is not there"
            elif count > 1:
                yield f"{tool}: {count} calls say that they made {model.__name__} {pk}"


def holds_have_an_owner(books: Books) -> Found:
    """A hold that lives was asked for by a call that stands; its seats are claimed, no others."""
    owned = {
        UUID(call.result["hold_id"])
        for call in books.calls.values()
        if call.tool == "hold_seats" and call.state == CallState.SUCCEEDED and call.result
    }
    live = Count("claims", filter=Q(claims__released_at=None))
    for hold in Hold.objects.annotate(live=live):
        if hold.status == HoldStatus.ACTIVE:
            if hold.pk not in owned | books.known:
                yield f"hold {hold.pk} is active and nobody's"
            if not hold.live:
                yield f"hold {hold.pk} is active and holds nothing"
            if hold.expires_at < now() - timedelta(minutes=1):
                yield f"hold {hold.pk} is active after its end"
        elif hold.live and hold.status != HoldStatus.CONVERTED:
            yield f"hold {hold.pk} is {hold.status} and keeps {hold.live} seats"
    for call in books.calls.values():
        if call.tool == "release_hold" and call.state == CallState.SUCCEEDED and call.result:
            hold = Hold.objects.get(pk=call.result["hold_id"])
            if hold.status == HoldStatus.ACTIVE:
                yield f"{call.conversation_ref}: hold {hold.pk} was released and is active"


def seats_are_held_once(books: Books) -> Found:
    """One live claim for a seat of an event; a live claim is of a live hold or a paid order."""
    twice = (
        SeatClaim.objects.filter(released_at=None)
        .values("event_id", "seat_id")
        .annotate(n=Count("pk"))
        .filter(n__gt=1)
    )
    for row in twice:
        yield f"seat {row['seat_id']} is taken {row['n']} times"
    dead = SeatClaim.objects.filter(released_at=None).exclude(
        Q(hold__status=HoldStatus.ACTIVE, order=None)
        | Q(hold__status=HoldStatus.CONVERTED, order__status=OrderStatus.PAID)
        | Q(order__status=OrderStatus.PENDING)
    )
    for claim in dead.select_related("hold", "order"):
        yield f"seat {claim.seat_id} is kept by a hold that is {claim.hold.status}"


def money_adds_up(books: Books) -> Found:
    """An order costs what its seats cost, was paid once, and is refunded when a refund says so."""
    orders = Order.objects.annotate(cost=Sum("claims__price_minor"))
    refunds = {refund.order_id: refund for refund in Refund.objects.all()}
    payments = {payment.order_id: payment for payment in Payment.objects.all()}
    doubtful = {c.idempotency_key for c in books.calls.values() if c.state == CallState.UNKNOWN}
    for order in orders:
        payment, refund = payments.pop(order.pk, None), refunds.pop(order.pk, None)
        if payment is None or payment.amount_minor != order.total_minor:
            yield f"order {order.pk} costs {order.total_minor}; paid: {payment}"
            continue
        if payment.status != MONEY[order.status]:
            yield f"order {order.pk} is {order.status}, its payment {payment.status}"
        if order.status == OrderStatus.PENDING and payment.reference not in doubtful:
            yield f"order {order.pk} is left {order.status}"
        if order.status in SOLD and order.cost != order.total_minor:
            yield f"order {order.pk} costs {order.total_minor}, its seats {order.cost}"
        is_given_back = refund is not None and refund.status == RefundStatus.REFUNDED
        if (order.status == OrderStatus.REFUNDED) != is_given_back:
            yield f"order {order.pk} is {order.status}; refund: {refund and refund.status}"
        is_left = refund is not None and refund.status == RefundStatus.PENDING
        if is_left and refund.reference not in doubtful:
            yield f"refund {refund.pk} is left {refund.status}"
    if payments or refunds:
        yield f"payments {sorted(payments)} and refunds {sorted(refunds)} have no order"


def provider_agrees(books: Books) -> Found:
    """The provider has moved what the books say that it has, and nothing else that was asked."""
    moved = {one.key: one for one in Movement.objects.filter(refusal="")}
    for call in books.calls.values():
        if call.tool not in ("place_order", "refund_order"):
            continue
        is_moved = call.idempotency_key in moved
        if is_moved != (call.state in HAPPENED) and call.state != CallState.UNKNOWN:
            yield (
                f"{call.conversation_ref}: call {call.pk} ({call.tool}) is {call.state}, "
                f"and its money {'has' if is_moved else 'has not'} moved"
            )
    for payment in Payment.objects.exclude(status__in=UNPAID):
        charge = moved.get(payment.reference)
        if charge is None or charge.amount_minor != payment.amount_minor:
            yield f"payment {payment.reference} of {payment.amount_minor} is unknown: {charge}"


def usage_is_booked_once(books: Books) -> Found:
    """Each committed turn of the model is in the ledger of usage, and in its run's sums."""
    booked: dict[UUID | None, tuple[int, int]] = {
        row["run_ref"]: (row["n"], row["cost"])
        for row in UsageEntry.objects.values("run_ref").annotate(
            n=Count("pk"), cost=Sum("cost_micros")
        )
    }
    for run in books.runs.values():
        turns = [s for s in books.steps[run.pk] if s.kind == StepKind.MODEL]
        count, cost = booked.get(run.pk, (0, 0))
        spent = sum(step.cost_micros for step in turns)
        if (count, cost) != (len(turns), spent) or (run.steps_used, run.cost_micros) != (
            len(turns),
            spent,
        ):
            yield (
                f"{run.conversation_id}: run {run.pk} has {len(turns)} turns for {spent}, "
                f"counts {run.steps_used} for {run.cost_micros}, is booked {count} for {cost}"
            )


def audit_is_complete(books: Books) -> Found:
    """The chain holds, and tells of each request, each decision and each outcome once."""
    report = chain_verify(tenant=books.tenant)
    for gap in report.breaks:
        yield f"audit: seal {gap.seal}: {gap.problem}"
    told = Counter(
        AuditRecord.objects.filter(action__startswith="approvals.request.").values_list(
            "action", "target"
        )
    )
    for request in ApprovalRequest.objects.prefetch_related("decisions"):
        expected = {"created", request.state} | {f"{d.verb}" for d in request.decisions.all()}
        words = {"approve": "approved", "deny": "denied", "withdraw": "withdrawn"} | {
            "expire": "expired",
            State.PENDING: "created",
        }
        for word in {words.get(each, each) for each in expected}:
            count = told.pop((f"approvals.request.{word}", f"approval:{request.pk}"), 0)
            if count != 1:
                yield (
                    f"{request.conversation_ref}: the audit log tells {count} times that request "
                    f"{request.pk} was {word}"
                )
    for (action, target), count in told.items():
        yield f"audit: {target} was {action} {count} times, and its row knows nothing of it"


def nobody_works_twice(books: Books) -> Found:
    """One run of a conversation at work."""
    twice = (
        Run.objects.filter(state=RunState.RUNNING, parent=None)
        .values(about=F("conversation_id"))
        .annotate(n=Count("pk"))
        .filter(n__gt=1)
    )
    for row in twice:
        yield f"{row['about']}: {row['n']} runs are at work"


CHECKS: tuple[Callable[[Books], Found], ...] = (
    runs_are_over,
    steps_are_whole,
    turns_are_answered,
    messages_are_said_once,
    ledger_is_complete,
    calls_are_final,
    approvals_are_used_up,
    effects_happened_once,
    holds_have_an_owner,
    seats_are_held_once,
    money_adds_up,
    provider_agrees,
    usage_is_booked_once,
    audit_is_complete,
    nobody_works_twice,
)

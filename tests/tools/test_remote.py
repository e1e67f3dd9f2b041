"""A remote effect: whatever the network does, at most once, and nobody guesses its outcome."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agents import recovery
from agents.models import Conversation
from approvals.models import REQUEST_STATES, ApprovalRequest
from boxoffice.acquirer.server import Trouble
from boxoffice.audit.models import AuditRecord
from boxoffice.common import clock
from boxoffice.common.exceptions import Forbidden, InvalidInput, NotFound
from boxoffice.common.transitions import transition
from boxoffice.tenancy.models import User
from boxoffice.tenancy.principals import Principal
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import Hold, Order, Payment, Refund
from boxoffice.ticketing.services.holds import holds_expire
from tests.support.acquirer import Acquirer, Said
from tests.support.cast import Cast
from tests.tools.buying import Buyer, ask, said_to, sending_in
from tools import registry, remote, settling, tasks
from tools.models import RemoteEffect, ToolCall
from tools.outcomes import Outcome
from tools.remote import Finding, Found
from tools.spec import ToolSpec

TOOLS = ["place_order", "refund_order"]
REFUSED = Finding(found=Found.REFUSED, data={"code": "payment_declined", "message": "no"})


def the_tool(name: str) -> ToolSpec:
    spec = registry.find(name)
    assert spec is not None
    return spec


def business(call: ToolCall) -> tuple[str, ...]:
    """How the rows stand that a call is about: order, payment, hold, and refund if there is one."""
    if call.tool == "refund_order":
        refund = Refund.objects.select_related("order").get(reference=call.idempotency_key)
        return (refund.status, refund.order.status, refund.order.payment.status)
    payment = Payment.objects.select_related("order__hold").get(reference=call.idempotency_key)
    return (payment.order.status, payment.status, payment.order.hold.status)


DONE = {"place_order": ("paid", "captured", "converted")}
DONE["refund_order"] = ("refunded", "refunded", "refunded")
OFF = {"place_order": ("cancelled", "failed", "active")}
OFF["refund_order"] = ("failed", "paid", "captured")
OPEN = {"place_order": ("pending", "pending", "paying")}
OPEN["refund_order"] = ("pending", "paid", "captured")


def sweep() -> None:
    """The runs' sweep."""
    recovery.sweep(lambda tenant_id, run_id: None)


def unscoped(work: Callable[[], Any]) -> None:
    """What the clock sets off, in a thread of its own as in a worker."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(60)
        pool.submit(lambda: connection.close()).result(60)


def lose(buyer: Buyer, tool: str = "place_order", **options: Any) -> ToolCall:
    """A call whose outcome is unknown: the money has moved, and no lookup works."""
    buyer.acquirer.expect(Trouble.DROP_AFTER)
    buyer.acquirer.always(Trouble.ERROR, on="lookup")
    call = buyer.finish(buyer.begun(tool, **options))
    buyer.acquirer.always(None, on="lookup")
    assert call.state == "unknown"
    return call


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize(
    ("troubles", "asked"),
    [
        ([], ["move"]),
        ([Trouble.ERROR], ["move", "lookup", "move"]),
        ([Trouble.ERROR_AFTER], ["move", "lookup"]),
        ([Trouble.DROP], ["move", "lookup", "move"]),
        ([Trouble.DROP_AFTER], ["move", "lookup"]),
        ([Trouble.SILENCE], ["move", "lookup", "move"]),
        ([Trouble.SILENCE_AFTER], ["move", "lookup"]),
        ([Trouble.BUSY], ["move", "move"]),
        ([Trouble.BUSY, Trouble.DROP], ["move", "move", "lookup", "move"]),
    ],
)
def test_what_the_network_does_is_looked_up_and_done_once(
    buyer: Buyer,
    monkeypatch: pytest.MonkeyPatch,
    tool: str,
    troubles: list[Trouble],
    asked: list[str],
) -> None:
    patient = the_tool(tool)
    monkeypatch.setitem(registry._tools, tool, replace(patient, timeout_s=1.0))
    report = buyer.begun(tool)
    buyer.acquirer.asked.clear()
    buyer.acquirer.expect(*troubles)
    call = buyer.finish(report)
    assert buyer.acquirer.asked == asked
    assert (call.state, business(call)) == ("succeeded", DONE[tool])
    assert [m.key for m in buyer.acquirer.moved].count(call.idempotency_key) == 1
    assert call.approval is not None
    assert call.approval.state == "executed"
    assert call.result["decision"]["approved_by"] in {"fan", "reviewer"}
    assert buyer.again(call.pk).outcome is Outcome.DONE
    assert len(buyer.acquirer.asked) == len(asked)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_refusal_is_a_failure_that_gives_everything_back(buyer: Buyer, tool: str) -> None:
    arguments = buyer.wish(tool)
    buyer.acquirer.expect(Trouble.DECLINE)
    call = buyer.finish(buyer.begun(tool, arguments))
    assert (call.state, business(call)) == ("failed", OFF[tool])
    assert call.error["code"] == "payment_declined"
    assert call.approval is not None
    assert call.approval.state == "failed"
    again = buyer.finish(buyer.begun(tool, arguments))
    assert (again.state, business(again)) == ("succeeded", DONE[tool])


@pytest.mark.parametrize("tool", TOOLS)
def test_a_provider_that_was_never_reached_is_a_failure(
    buyer: Buyer, settings: Any, tool: str
) -> None:
    report = buyer.begun(tool)
    settings.PAYMENT_URL = "http://127.0.0.1:9"
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("failed", OFF[tool])
    assert (call.error["code"], call.error["retryable"]) == ("provider_unavailable", True)


def test_what_may_have_arrived_is_never_taken_for_a_failure(buyer: Buyer) -> None:
    """First the answer is lost, then the provider takes no requests any more."""
    report = buyer.begun("place_order")
    buyer.acquirer.expect(Trouble.DROP, Trouble.BUSY, Trouble.BUSY, Trouble.BUSY)
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("unknown", OPEN["place_order"])


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("status", [403, 408])
def test_a_lookup_that_is_turned_away_leaves_it_unknown(
    buyer: Buyer, tool: str, status: int
) -> None:
    """The money has moved, the answer is lost, and then we are not let in to ask."""
    report = buyer.begun(tool)
    buyer.acquirer.expect(Trouble.DROP_AFTER)
    buyer.acquirer.always(Said(status), on="lookup")
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("unknown", OPEN[tool])
    assert str(status) in call.remote_effect.found["why"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_movement_that_took_too_long_is_looked_up(buyer: Buyer, tool: str) -> None:
    report = buyer.begun(tool)
    buyer.acquirer.asked.clear()
    buyer.acquirer.expect(Said(408))
    call = buyer.finish(report)
    assert buyer.acquirer.asked == ["move", "lookup", "move"]
    assert (call.state, business(call)) == ("succeeded", DONE[tool])


# Less money, dollars, another key or charge: nothing of it pays this order.
WRONG: list[tuple[str, str, dict[str, Any], str]] = [
    ("place_order", "move", {"amount_minor": 1}, "amount_minor"),
    ("place_order", "lookup", {"amount_minor": 1}, "amount_minor"),
    ("place_order", "lookup", {"amount_minor": True}, "said 200"),
    ("place_order", "move", {"amount_minor": None}, "said 200"),
    ("place_order", "lookup", {"currency": "USD"}, "currency"),
    ("place_order", "lookup", {"key": "another"}, "key"),
    ("place_order", "move", {"charge": "another"}, "charge"),
    ("refund_order", "lookup", {"charge": "another"}, "charge"),
    ("refund_order", "move", {"amount_minor": 1}, "amount_minor"),
]


@pytest.mark.parametrize(("tool", "heard_by", "wrong", "why"), WRONG)
def test_a_receipt_for_something_else_is_for_a_person(
    buyer: Buyer, tool: str, heard_by: str, wrong: dict[str, Any], why: str
) -> None:
    report = buyer.begun(tool)
    request = sending_in(report).request
    receipt = {
        "id": "mv_1",
        "key": report.call.idempotency_key,
        "amount_minor": request["amount_minor"],
        "currency": "BRL",
        "charge": request.get("charge", ""),
        "status": "done",
    }
    if heard_by == "move":
        buyer.acquirer.expect(Said(200, receipt | wrong))
    else:
        buyer.acquirer.expect(Trouble.DROP_AFTER)
    buyer.acquirer.always(Said(200, receipt | wrong), on="lookup")
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("unknown", OPEN[tool])
    assert why in call.remote_effect.found["why"]
    seen = settling.call_look_up(call_id=call.pk, by=buyer.house.principal("ada"))
    assert (seen.state, business(call)) == ("unknown", OPEN[tool])
    buyer.acquirer.always(Said(200, receipt), on="lookup")
    seen = settling.call_look_up(call_id=call.pk, by=buyer.house.principal("ada"))
    assert (seen.state, business(call)) == ("succeeded", DONE[tool])


def test_a_receipt_is_stored_whatever_is_written_in_it(buyer: Buyer) -> None:
    report = buyer.begun("place_order")
    amount = sending_in(report).request["amount_minor"]
    receipt = {"id": "mv\0\ud800", "amount_minor": amount, "status": "done"}
    buyer.acquirer.expect(Said(200, receipt))
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("succeeded", DONE["place_order"])
    payment = Payment.objects.get(reference=call.idempotency_key)
    assert payment.provider_id == call.remote_effect.found["provider_id"] == "mv\ufffd?"


def test_a_refusal_is_stored_whatever_is_written_in_it(buyer: Buyer) -> None:
    report = buyer.begun("place_order")
    buyer.acquirer.expect(Said(402, {"reason": "\0\ud800" + "x" * 10_000}))
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("failed", OFF["place_order"])
    assert "\ufffd?xxx" in call.error["message"]
    assert len(call.error["message"]) < 400


def test_a_key_that_moved_another_amount_is_for_a_person(buyer: Buyer) -> None:
    """The provider says so in its own words: the key was used, for something else."""
    report = buyer.begun("place_order")
    buyer.acquirer.enter(report.call.idempotency_key, 1)
    call = buyer.finish(report)
    assert (call.state, business(call)) == ("unknown", OPEN["place_order"])
    assert "amount_minor: 1, not" in call.remote_effect.found["why"]


@pytest.mark.parametrize("tool", TOOLS)
def test_an_outcome_that_stays_lost_is_unknown_and_blocks_nothing_but_itself(
    buyer: Buyer, tool: str
) -> None:
    call = lose(buyer, tool)
    assert business(call) == OPEN[tool]
    assert call.error["code"] == "outcome_unknown"
    assert call.error["retryable"] is False
    assert "not repeat" in call.error["hint"]
    assert call.approval is not None
    assert call.approval.state == "unknown"
    Hold.objects.update(expires_at=clock.now())
    assert holds_expire() == 0
    report = buyer.again(call.pk)
    assert report.outcome is Outcome.DONE
    assert report.call.state == "unknown"
    assert len([m for m in buyer.acquirer.moved if m.key == call.idempotency_key]) == 1
    assert AuditRecord.objects.filter(action="tools.call.unknown").count() == 1


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("happened", [True, False])
def test_a_person_settles_it_and_everything_follows(
    buyer: Buyer, tool: str, happened: bool
) -> None:
    run = buyer.over()
    call = lose(buyer, tool, run=run)
    assert [row.call_id for row in settling.unknown_calls()] == [call.pk]
    settling.call_settle(
        call_id=call.pk, happened=happened, note="no extrato", by=buyer.house.principal("ada")
    )
    call.refresh_from_db()
    assert call.state == ("succeeded" if happened else "failed")
    assert business(call) == (DONE if happened else OFF)[tool]
    assert list(settling.unknown_calls()) == []
    if happened:
        assert call.error is None
        assert call.result["status"] in {"paid", "refunded"}
    else:
        assert call.error["code"] == "did_not_happen"
    record = AuditRecord.objects.get(action="tools.call.settled")
    assert record.actor == f"user:{buyer.house.user('ada').pk}"
    assert record.details["note"] == "no extrato"
    unknown, settled = said_to(run.conversation)
    assert "não sabemos" in unknown.lower()
    assert settled != unknown
    conversation = Conversation.objects.get(pk=run.conversation_id)
    assert conversation.handoff_reason == "outcome_unknown"


def test_seats_whose_time_is_over_are_free_once_it_did_not_happen(buyer: Buyer) -> None:
    call = lose(buyer)
    Hold.objects.update(expires_at=clock.now())
    settling.call_settle(
        call_id=call.pk, happened=False, note="nada lá", by=buyer.house.principal("ada")
    )
    assert business(call) == ("cancelled", "failed", "expired")
    assert buyer.house.counts()["live_claims"] == 0


@pytest.fixture
def teo(teatro: Cast) -> Principal:
    """A fan of another tenant, made while no scope is open."""
    return teatro.principal("teo")


def test_who_may_settle(teo: Principal, buyer: Buyer) -> None:
    call = lose(buyer)
    house = buyer.house

    def settle(by: Any, note: str = "sei disso") -> None:
        settling.call_settle(call_id=call.pk, happened=True, note=note, by=by)

    for name in ("ana", "fabio", "rita"):
        with pytest.raises(Forbidden):
            settle(house.principal(name))
    with pytest.raises(NotFound):
        settle(teo)
    for note in (" . ", "\0   \0", "x" * 2001):
        with pytest.raises(InvalidInput):
            settle(house.principal("ada"), note=note)
    ToolCall.objects.filter(pk=call.pk).update(user=User.objects.get(username="ada"))
    with pytest.raises(Forbidden):
        settle(house.principal("ada"))
    call.refresh_from_db()
    assert call.state == "unknown"


def test_looking_it_up_again_finds_what_happened(buyer: Buyer) -> None:
    call = lose(buyer)
    buyer.acquirer.always(Trouble.ERROR, on="lookup")
    ada = buyer.house.principal("ada")
    assert settling.call_look_up(call_id=call.pk, by=ada).state == "unknown"
    buyer.acquirer.always(None, on="lookup")
    assert settling.call_look_up(call_id=call.pk, by=ada).state == "succeeded"
    assert business(call) == DONE["place_order"]
    with pytest.raises(settling.AlreadySettled):
        settling.call_look_up(call_id=call.pk, by=ada)


def test_what_the_provider_has_never_heard_of_is_left_to_the_person(buyer: Buyer) -> None:
    """Unlike a worker, somebody who only looks sends nothing."""
    buyer.acquirer.always(Trouble.ERROR)
    call = buyer.finish(buyer.begun("place_order"))
    assert call.state == "unknown"
    buyer.acquirer.always(None)
    buyer.acquirer.asked.clear()
    seen = settling.call_look_up(call_id=call.pk, by=buyer.house.principal("ada"))
    assert seen.state == "unknown"
    assert buyer.acquirer.asked == ["lookup"]
    assert RemoteEffect.objects.get(call=call).found["found"] == "absent"


def together(house: Cast, acts: list[Callable[[], Any]]) -> list[Any]:
    """Do all at once, each on a connection of its own; results or errors."""
    results: list[Any] = [None] * len(acts)
    barrier = threading.Barrier(len(acts))

    def one(index: int) -> None:
        with tenant_scope(house.tenant.pk):
            try:
                barrier.wait(20)
                results[index] = acts[index]()
            except Exception as error:  # noqa: BLE001
                results[index] = error
            finally:
                connection.close()

    threads = [threading.Thread(target=one, args=[index]) for index in range(len(acts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def test_one_settling_counts_whoever_races(buyer: Buyer) -> None:
    call = lose(buyer)
    ada = buyer.house.principal("ada")

    def settle(happened: bool) -> Callable[[], Any]:
        return lambda: settling.call_settle(
            call_id=call.pk, happened=happened, note="vi no banco", by=ada
        )

    results = together(buyer.house, [settle(index % 2 == 0) for index in range(6)])
    assert sum(isinstance(one, ToolCall) for one in results) == 1
    losers = [one for one in results if not isinstance(one, ToolCall)]
    assert {type(one) for one in losers} == {settling.AlreadySettled}
    call.refresh_from_db()
    wanted = DONE if call.state == "succeeded" else OFF
    assert business(call) == wanted["place_order"]
    assert AuditRecord.objects.filter(action="tools.call.settled").count() == 1


def test_workers_that_share_a_call_move_the_money_once(buyer: Buyer) -> None:
    first = buyer.begun("place_order")
    reports = [first, *(buyer.again(first.call.pk) for _ in range(3))]
    acts = [lambda report=report: buyer.finish(report) for report in reports]  # type: ignore[misc]
    results = together(buyer.house, acts)
    assert [one.state for one in results] == ["succeeded"] * 4
    assert [m.key for m in buyer.acquirer.moved] == [first.call.idempotency_key]
    assert Order.objects.count() == 1
    assert business(first.call) == DONE["place_order"]


def test_a_worker_that_comes_late_changes_nothing(buyer: Buyer) -> None:
    late = sending_in(buyer.begun("place_order"))
    heard = ask(late)
    second = buyer.finish(buyer.again(late.call_id))
    assert (second.state, second.attempts) == ("succeeded", 2)
    after = buyer.conclude(late, heard)
    assert (after.result, after.finished_at) == (second.result, second.finished_at)
    contradiction = buyer.conclude(late, REFUSED)
    assert contradiction.state == "succeeded"
    assert business(second) == DONE["place_order"]
    assert AuditRecord.objects.filter(action="tools.call.contradicted").count() == 1


def test_a_late_answer_ends_what_was_unknown(buyer: Buyer) -> None:
    late = sending_in(buyer.begun("place_order"))
    heard = ask(late)
    buyer.acquirer.always(Trouble.ERROR, on="lookup")
    assert buyer.finish(buyer.again(late.call_id)).state == "unknown"
    call = buyer.conclude(late, heard)
    assert (call.state, business(call)) == ("succeeded", DONE["place_order"])
    assert call.approval is not None
    assert call.approval.state == "unknown"  # final; the ledger tells the rest


@pytest.mark.parametrize("has_sent", [True, False])
def test_the_sweep_finishes_what_a_run_that_is_over_has_begun(buyer: Buyer, has_sent: bool) -> None:
    run = buyer.over()
    report = buyer.begun("place_order", run=run)
    if has_sent:
        ask(sending_in(report))  # and its worker dies
    unscoped(tasks.resolve_effects)
    assert ToolCall.objects.get(pk=report.call.pk).state == "running"  # not yet due
    RemoteEffect.objects.update(due_at=clock.now())
    unscoped(tasks.resolve_effects)
    unscoped(tasks.resolve_effects)
    call = ToolCall.objects.select_related("approval").get(pk=report.call.pk)
    assert (call.state, business(call)) == ("succeeded", DONE["place_order"])
    assert len(buyer.acquirer.moved) == 1
    assert call.approval is not None
    assert call.approval.state == "executed"
    (said,) = said_to(run.conversation)
    assert "Noite de Jazz" in said
    unscoped(sweep)
    assert said_to(run.conversation) == [said]


def test_one_that_cannot_be_written_down_keeps_none_of_the_others(buyer: Buyer) -> None:
    bad, good = buyer.begun("place_order"), buyer.begun("place_order")
    assert bad.call.approval is not None
    rows = ApprovalRequest.objects.filter(pk=bad.call.approval.pk)
    transition(rows, REQUEST_STATES, "executed")  # as if it had been used: it cannot be used again
    RemoteEffect.objects.filter(call=bad.call).update(due_at=clock.now() - timedelta(minutes=1))
    RemoteEffect.objects.filter(call=good.call).update(due_at=clock.now())
    unscoped(tasks.resolve_effects)
    states = {call.pk: call.state for call in ToolCall.objects.filter(tool="place_order")}
    assert states == {bad.call.pk: "running", good.call.pk: "succeeded"}
    assert RemoteEffect.objects.get(call=bad.call).due_at > clock.now()  # and once more later


def test_the_sweep_holds_no_connection_while_it_waits(buyer: Buyer) -> None:
    report = buyer.begun("place_order")
    RemoteEffect.objects.update(due_at=clock.now())
    held = []

    def work() -> None:
        held.append(connections["default"])
        tasks.resolve_effects()

    buyer.acquirer.has_come.clear()
    buyer.acquirer.may_answer.clear()
    thread = threading.Thread(target=unscoped, args=[work])
    thread.start()
    try:
        assert buyer.acquirer.has_come.wait(20)
        assert held[0].connection is None
    finally:
        buyer.acquirer.may_answer.set()
        thread.join(60)
    assert ToolCall.objects.get(pk=report.call.pk).state == "succeeded"


def test_a_call_has_taken_as_long_as_since_it_was_sent(buyer: Buyer) -> None:
    """Whoever writes it down may have begun a moment ago."""
    report = buyer.begun("place_order")
    RemoteEffect.objects.update(sent_at=clock.now() - timedelta(minutes=5))
    call = buyer.finish(buyer.again(report.call.pk))
    assert 300_000 <= call.latency_ms < 600_000


def test_a_call_may_be_settled_after_any_time(buyer: Buyer) -> None:
    call = lose(buyer)
    RemoteEffect.objects.update(sent_at=clock.now() - timedelta(days=60))
    settling.call_settle(
        call_id=call.pk, happened=True, note="no extrato", by=buyer.house.principal("ada")
    )
    call.refresh_from_db()
    assert (call.state, call.latency_ms) == ("succeeded", 2**31 - 1)


def test_a_lost_signal_is_made_good_by_the_sweep(
    buyer: Buyer, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = buyer.over()
    with monkeypatch.context() as patch:
        patch.setattr(remote, "_announce", lambda call: None)
        buyer.finish(buyer.begun("place_order", run=run))
    assert said_to(run.conversation) == []
    for _ in range(2):
        unscoped(sweep)
    assert len(said_to(run.conversation)) == 1


def test_what_stays_unknown_is_looked_up_ever_more_seldom(buyer: Buyer) -> None:
    call = lose(buyer)
    buyer.acquirer.always(Trouble.ERROR, on="lookup")
    pauses = []
    while (due_at := RemoteEffect.objects.get(call=call).due_at) is not None:
        pauses.append(due_at - clock.now())
        RemoteEffect.objects.update(due_at=clock.now())
        unscoped(tasks.resolve_effects)
    assert pauses == sorted(pauses)
    assert len(pauses) == remote.LOOKS_MOST
    assert [m.key for m in buyer.acquirer.moved] == [call.idempotency_key]


@pytest.mark.parametrize("lookup", ["none", "absent"])
def test_without_a_promise_nothing_is_sent_twice(
    buyer: Buyer, monkeypatch: pytest.MonkeyPatch, lookup: str
) -> None:
    """A provider that cannot be asked, or that does not do a key once."""
    patient = the_tool("place_order")
    assert patient.remote is not None
    changes = {"lookup": None} if lookup == "none" else {"is_idempotent": False}
    shy = replace(patient, remote=replace(patient.remote, **changes))  # type: ignore[arg-type]
    monkeypatch.setitem(registry._tools, "place_order", shy)
    report = buyer.begun("place_order")  # and its worker dies
    call = buyer.finish(buyer.again(report.call.pk))
    assert (call.state, buyer.acquirer.moved) == ("unknown", [])
    assert buyer.acquirer.asked == ([] if lookup == "none" else ["lookup"])


def test_money_that_moved_and_cannot_be_written_down_is_for_a_person(buyer: Buyer) -> None:
    report = buyer.begun("place_order")
    Payment.objects.filter(reference=report.call.idempotency_key).update(reference="gone")
    call = buyer.finish(report)
    assert call.state == "unknown"
    found = call.remote_effect.found
    assert found["heard"]["found"] == "done"
    assert found["heard"]["not_recorded"]["code"] == "order_not_found"


def test_a_tool_that_no_longer_exists_is_for_a_person(
    buyer: Buyer, monkeypatch: pytest.MonkeyPatch, acquirer: Acquirer
) -> None:
    report = buyer.begun("place_order")
    monkeypatch.delitem(registry._tools, "place_order")
    call = buyer.finish(buyer.again(report.call.pk))
    assert (call.state, acquirer.asked) == ("unknown", [])
    with pytest.raises(settling.Conflict):
        settling.call_look_up(call_id=call.pk, by=buyer.house.principal("ada"))


TROUBLES = st.lists(
    st.sampled_from(
        [
            None,
            Trouble.DECLINE,
            Trouble.ERROR,
            Trouble.ERROR_AFTER,
            Trouble.DROP,
            Trouble.DROP_AFTER,
            Trouble.BUSY,
        ]
    ),
    max_size=4,
)
DEAF = st.lists(st.sampled_from([None, Trouble.ERROR, Trouble.DROP]), max_size=4)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(moves=TROUBLES, lookups=DEAF, deaths=st.integers(0, 2))
def test_whatever_happens_the_rows_say_what_the_provider_did(
    buyer: Buyer, moves: list[Trouble | None], lookups: list[Trouble | None], deaths: int
) -> None:
    """Any order of troubles and deaths: at most once, and nothing claims to know what it cannot."""
    buyer.acquirer.forget()
    buyer.acquirer.expect(*moves)
    buyer.acquirer.expect(*lookups, on="lookup")
    report = buyer.begun("place_order")
    for _ in range(deaths):  # each asks, and dies before it has written anything down
        ask(sending_in(report))
        report = buyer.again(report.call.pk)
    call = buyer.finish(report)
    moved = [m.key for m in buyer.acquirer.moved]
    assert moved.count(call.idempotency_key) == len(moved) <= 1
    ends = {"succeeded": (DONE, [1]), "failed": (OFF, [0]), "unknown": (OPEN, [0, 1])}
    rows, counts = ends[call.state]
    assert business(call) == rows["place_order"]
    assert len(moved) in counts
    buyer.acquirer.forget_troubles()
    if call.state == "unknown" and moved:
        ada = buyer.house.principal("ada")
        assert settling.call_look_up(call_id=call.pk, by=ada).state == "succeeded"
        assert business(call) == DONE["place_order"]

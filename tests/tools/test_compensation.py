"""Taking back what a run did: newest first, each once, or a person is told."""

import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction

from boxoffice.audit.models import AuditRecord
from boxoffice.common.clock import now
from boxoffice.common.exceptions import Conflict, InvalidInput
from boxoffice.tenancy.models import Tier
from boxoffice.ticketing.models import Hold
from boxoffice.ticketing.services.holds import hold_release
from boxoffice.ticketing.services.orders import order_begin, order_cancel, order_pay
from tests.support.cast import Cast, arena, teatro
from tests.support.dispatching import call_run
from tests.ticketing.buying import order_place
from tools import compensation, effects, registry
from tools.compensation import MAX_TRIES
from tools.models import ToolCall, Undo, UndoReason, UndoState
from tools.permissions import Caller
from tools.registry import BadTool
from tools.spec import Risk, ToolContext, ToolInput, ToolOutput, ToolSpec

__all__ = ["arena", "teatro"]

DONE: list[str] = []
BROKEN: set[str] = set()


class Name(ToolInput):
    """Which one."""

    name: str


class Named(ToolOutput):
    """The same."""

    name: str


def does(context: ToolContext, arguments: Name) -> Named:
    DONE.append(f"do {arguments.name}")
    return Named(name=arguments.name)


def undoes(context: ToolContext, arguments: Name) -> Named:
    if arguments.name in BROKEN:
        raise KeyError("a mistake in the tool")
    DONE.append(f"undo {arguments.name}")
    return Named(name=arguments.name)


def spec(name: str, run: Any, **more: Any) -> ToolSpec:
    return ToolSpec(
        name=name,
        description="One. Two. Three.",
        input_model=Name,
        output_model=Named,
        run=run,
        risk=Risk.WRITE_REVERSIBLE,
        **more,
    )


@pytest.fixture
def house(arena: Cast, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cast]:
    """`arena`, open, with a pair of tools that only keep a list."""
    DONE.clear()
    BROKEN.clear()
    pair = [
        spec("undo_it", undoes),
        spec(
            "do_it",
            does,
            inverse=lambda result: ("undo_it", {"name": result["name"]}),
            stands=lambda context, result: f"undo {result['name']}" not in DONE,
        ),
    ]
    for one in pair:
        monkeypatch.setitem(registry._tools, one.name, one)
    with arena.scope():
        pro = Tier.objects.get(slug="pro")
        Tier.objects.filter(pk=pro.pk).update(tools=[*pro.tools, "do_it", "undo_it"])
        yield arena


def caller(house: Cast) -> Caller:
    return Caller(
        tenant_id=house.tenant.pk,
        user_id=house.user("ana").pk,
        time_zone="America/Sao_Paulo",
        language="pt-br",
    )


def proposed(house: Cast, run_id: UUID, tool: str, arguments: dict[str, Any]) -> ToolCall:
    (call,) = effects.calls_propose(
        caller=caller(house),
        proposals=[effects.Proposal(call_id="c", tool=tool, arguments=arguments)],
        origin="test",
        run_id=run_id,
        conversation_id=uuid4(),
        key_prefix=str(uuid4()),
    )
    return call


def called(house: Cast, run_id: UUID, tool: str, **arguments: Any) -> ToolCall:
    """A call of ana's that was done."""
    call = proposed(house, run_id, tool, arguments)
    call_run(call_id=call.pk, caller=caller(house))
    call.refresh_from_db()
    assert call.state == "succeeded", call.error
    return call


def held(house: Cast, run_id: UUID, *names: str) -> ToolCall:
    """Seats that ana's run held."""
    seats = [str(pk) for pk in house.seats.ids(*names)]
    return called(house, run_id, "hold_seats", event_id=str(house.seats.event.pk), seat_ids=seats)


def plan(run_id: UUID, reason: UndoReason = UndoReason.CANCELLED) -> int:
    with transaction.atomic():
        return compensation.undo_plan(run_id=run_id, reason=reason, actor="user:1")


def undo_all(run_id: UUID) -> None:
    """As the clock does, but at once: what waits for its next try is due now."""
    for _ in range(2 * MAX_TRIES):
        Undo.objects.filter(run_ref=run_id, state="due").update(next_attempt_at=now())
        compensation.undo_run(run_id=run_id)


def states(run_id: UUID) -> list[str]:
    """Of the effects, oldest first."""
    rows = Undo.objects.filter(run_ref=run_id).order_by("call_id")
    return list(rows.values_list("state", flat=True))


def test_effects_are_undone_newest_first_and_once(house: Cast) -> None:
    run_id = uuid4()
    for name in "abc":
        called(house, run_id, "do_it", name=name)
    assert plan(run_id) == 3
    assert compensation.undo_run(run_id=run_id) == 3
    assert DONE[3:] == ["undo c", "undo b", "undo a"]
    assert plan(run_id) == 0
    assert compensation.undo_run(run_id=run_id) == 0
    assert len(DONE) == 6


def test_the_ledger_tells_both_sides(house: Cast) -> None:
    run_id = uuid4()
    call = held(house, run_id, "B-A1", "B-A2")
    plan(run_id)
    compensation.undo_run(run_id=run_id)
    call.refresh_from_db()
    undo = Undo.objects.select_related("inverse").get(call=call)
    inverse = undo.inverse
    assert (call.state, undo.state) == ("compensated", "undone")
    assert inverse is not None
    assert (inverse.tool, inverse.state, inverse.verdict) == ("release_hold", "succeeded", "allow")
    assert inverse.origin == f"undo:{call.pk}"
    assert inverse.run_ref == run_id
    assert inverse.user_id == call.user_id
    assert inverse.idempotency_key.startswith(call.idempotency_key)
    assert inverse.idempotency_key != call.idempotency_key
    assert house.counts()["live_claims"] == 0
    actions = AuditRecord.objects.filter(action__startswith="tools.undo").order_by("id")
    assert list(actions.values_list("action", "actor")) == [
        ("tools.undo.planned", "user:1"),
        ("tools.undo.undone", "system:undo"),
    ]


@pytest.mark.parametrize("fate", ["expired", "released", "bought"])
def test_what_ended_otherwise_is_nothing_to_undo(house: Cast, fate: str) -> None:
    run_id = uuid4()
    call = held(house, run_id, "B-A1", "B-A2")
    hold = Hold.objects.get()
    if fate == "expired":
        Hold.objects.update(expires_at=now() - timedelta(seconds=1))
    elif fate == "released":
        hold_release(hold_id=hold.pk, user_id=hold.user_id)
    else:
        order_place(hold_id=hold.pk, user_id=hold.user_id, payment_key="k")
    plan(run_id)
    compensation.undo_run(run_id=run_id)
    call.refresh_from_db()
    assert states(run_id) == ["nothing"]
    assert call.state == "succeeded"
    assert house.counts()["orders"] == (fate == "bought")
    assert ToolCall.objects.filter(tool="release_hold").count() == 0


@pytest.mark.parametrize(
    ("fate", "ends"), [("paid", "nothing"), ("off", "undone"), ("off and over", "nothing")]
)
def test_a_hold_that_is_being_paid_is_waited_for_however_long(
    house: Cast, fate: str, ends: str
) -> None:
    run_id = uuid4()
    held(house, run_id, "B-A1", "B-A2")
    older = called(house, run_id, "do_it", name="newer, undone before")
    hold = Hold.objects.get()
    order_begin(hold_id=hold.pk, user_id=hold.user_id, payment_key="k", provider="demo")
    plan(run_id)
    undo_all(run_id)
    undo = Undo.objects.exclude(call=older).get()
    assert (undo.state, undo.attempts, undo.error) == ("due", 0, None)
    assert undo.next_attempt_at > now()
    assert ToolCall.objects.filter(tool="release_hold").count() == 0
    if fate == "off and over":
        Hold.objects.update(expires_at=now() - timedelta(seconds=1))
    if fate == "paid":
        order_pay(payment_key="k", provider_id="mv_k")
    else:
        order_cancel(payment_key="k")
    undo_all(run_id)
    undo.refresh_from_db()
    assert undo.state == ends
    hold.refresh_from_db()
    assert hold.status == {"paid": "converted", "off": "released", "off and over": "expired"}[fate]


def test_what_cannot_be_undone_is_left_alone(house: Cast) -> None:
    run_id = uuid4()
    called(house, run_id, "search_events")
    called(house, run_id, "create_ticket", subject="Ajuda", body="Preciso de ajuda com a entrada.")
    proposed(house, run_id, "do_it", {"name": "not begun"})
    assert plan(run_id) == 0


def test_an_inverse_that_fails_is_tried_again_and_then_shown(house: Cast) -> None:
    run_id = uuid4()
    called(house, run_id, "do_it", name="a")
    BROKEN.add("a")
    plan(run_id)
    compensation.undo_run(run_id=run_id)
    undo = Undo.objects.get()
    assert (undo.state, undo.attempts, undo.error["code"]) == ("due", 1, "tool_failed")
    assert undo.next_attempt_at > now()
    assert compensation.undo_run(run_id=run_id) == 0, "it waits for its time"
    undo_all(run_id)
    undo.refresh_from_db()
    assert (undo.state, undo.attempts) == ("stuck", MAX_TRIES)
    tries = ToolCall.objects.filter(tool="undo_it")
    assert [call.state for call in tries] == ["failed"] * MAX_TRIES
    assert AuditRecord.objects.filter(action="tools.undo.stuck").count() == 1


def test_a_person_lets_it_be_tried_again(house: Cast) -> None:
    run_id = uuid4()
    called(house, run_id, "do_it", name="a")
    BROKEN.add("a")
    plan(run_id)
    undo_all(run_id)
    BROKEN.clear()
    undo = Undo.objects.get()
    compensation.undo_retry(undo_id=undo.pk, actor="user:2")
    compensation.undo_run(run_id=run_id)
    assert states(run_id) == ["undone"]
    assert DONE.count("undo a") == 1
    with pytest.raises(Conflict):
        compensation.undo_retry(undo_id=undo.pk, actor="user:2")


def test_a_person_settles_it_with_a_note(house: Cast) -> None:
    run_id = uuid4()
    called(house, run_id, "do_it", name="a")
    BROKEN.add("a")
    plan(run_id)
    undo = Undo.objects.get()
    with pytest.raises(Conflict):
        compensation.undo_settle(undo_id=undo.pk, note="feito à mão", actor="user:2")
    undo_all(run_id)
    for note in ("", "  ", "\0\0\0", "x" * 2001):
        with pytest.raises(InvalidInput):
            compensation.undo_settle(undo_id=undo.pk, note=note, actor="user:2")
    compensation.undo_settle(undo_id=undo.pk, note="feito à mão", actor="user:2")
    undo.refresh_from_db()
    assert (undo.state, undo.note) == ("settled", "feito à mão")
    assert undo.finished_at is not None
    last = AuditRecord.objects.order_by("-id")[0]
    assert (last.action, last.actor) == ("tools.undo.settled", "user:2")
    assert last.details == {"note": "feito à mão"}


def test_what_is_older_waits_until_the_newer_is_given_up(house: Cast) -> None:
    run_id = uuid4()
    for name in "abc":
        called(house, run_id, "do_it", name=name)
    BROKEN.add("b")
    plan(run_id)
    compensation.undo_run(run_id=run_id)
    assert states(run_id) == ["due", "due", "undone"]
    assert compensation.undo_run(run_id=run_id) == 0
    undo_all(run_id)
    assert states(run_id) == ["undone", "stuck", "undone"]


def test_a_right_that_is_gone_stops_the_inverse_too(house: Cast) -> None:
    run_id = uuid4()
    held(house, run_id, "B-A1")
    house.user("ana").memberships.update(is_active=False)
    plan(run_id)
    undo_all(run_id)
    assert states(run_id) == ["stuck"]
    denied = ToolCall.objects.filter(tool="release_hold")
    assert {call.state for call in denied} == {"denied"}
    assert house.counts()["live_claims"] == 1


def test_an_inverse_that_needs_a_human_by_now_is_not_run(
    house: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = uuid4()
    called(house, run_id, "do_it", name="a")
    gated = spec("undo_it", undoes)
    object.__setattr__(gated, "risk", Risk.DESTRUCTIVE)
    monkeypatch.setitem(registry._tools, "undo_it", gated)
    plan(run_id)
    undo_all(run_id)
    assert states(run_id) == ["stuck"]
    assert Undo.objects.get().error["code"] == "needs_human"
    assert {call.state for call in ToolCall.objects.filter(tool="undo_it")} == {"denied"}


def test_an_outcome_that_is_not_known_yet_is_waited_for(house: Cast) -> None:
    run_id = uuid4()
    older = called(house, run_id, "do_it", name="a")
    calls = [proposed(house, run_id, "do_it", {"name": name}) for name in "bc"]
    ToolCall.objects.filter(pk__in=[call.pk for call in calls]).update(state="running")
    assert plan(run_id) == 3
    compensation.undo_run(run_id=run_id)
    assert states(run_id) == ["undone", "due", "due"]
    happened, failed = calls
    ToolCall.objects.filter(pk=happened.pk).update(state="succeeded", result={"name": "b"})
    ToolCall.objects.filter(pk=failed.pk).update(state="failed")
    assert compensation.undo_run(run_id=run_id) == 2
    assert states(run_id) == ["undone", "undone", "nothing"]
    assert DONE == ["do a", "undo a", "undo b"]
    assert ToolCall.objects.get(pk=older.pk).state == "compensated"


def test_a_tool_that_is_gone_is_shown_to_a_person(
    house: Cast, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = uuid4()
    called(house, run_id, "do_it", name="a")
    plan(run_id)
    monkeypatch.delitem(registry._tools, "do_it")
    undo_all(run_id)
    assert states(run_id) == ["stuck"]
    assert Undo.objects.get().error["code"] == "undo_failed"


def test_many_workers_at_once_undo_once(house: Cast) -> None:
    run_id = uuid4()
    for name in "abcd":
        called(house, run_id, "do_it", name=name)
    plan(run_id)
    barrier = threading.Barrier(6)

    def work() -> None:
        try:
            barrier.wait()
            with house.scope():
                compensation.undo_run(run_id=run_id)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    compensation.undo_run(run_id=run_id)
    assert states(run_id) == [UndoState.UNDONE] * 4
    assert DONE[4:] == ["undo d", "undo c", "undo b", "undo a"]


def test_the_clock_finds_what_is_due_in_every_tenant(arena: Cast, teatro: Cast) -> None:
    runs = {}
    for house, name in ((arena, "ana"), (teatro, "teo")):
        with house.scope():
            hold = called_for(house, name)
            runs[house.tenant.slug] = hold.run_ref
            plan(hold.run_ref)
    assert compensation.undo_due() == 2
    for house in (arena, teatro):
        with house.scope():
            assert states(runs[house.tenant.slug]) == ["undone"]
            assert house.counts()["live_claims"] == 0


def called_for(house: Cast, name: str) -> ToolCall:
    who = Caller(
        tenant_id=house.tenant.pk,
        user_id=house.user(name).pk,
        time_zone="America/Sao_Paulo",
        language="pt-br",
    )
    seats = [str(pk) for pk in house.seats.ids("B-A1")]
    (call,) = effects.calls_propose(
        caller=who,
        proposals=[
            effects.Proposal(
                call_id="c",
                tool="hold_seats",
                arguments={"event_id": str(house.seats.event.pk), "seat_ids": seats},
            )
        ],
        origin="test",
        run_id=uuid4(),
        conversation_id=uuid4(),
        key_prefix=str(uuid4()),
    )
    return call_run(call_id=call.pk, caller=who).call


def test_a_tool_with_an_inverse_says_whether_its_effect_stands() -> None:
    half = spec("half", does, inverse=lambda result: ("undo_it", {}))
    with pytest.raises(BadTool, match="stands"):
        registry.register(half)

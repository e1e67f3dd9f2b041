"""Rules at the one place where calls are dispatched."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from approvals import services as approvals
from approvals.exceptions import AlreadyDecided, FourEyes
from approvals.models import ApprovalRequest, PolicyVersion
from approvals.policies import rules, versions
from approvals.policies.checks import rules_check
from approvals.policies.current import policies_forget
from boxoffice.config.devstack.environment import CHECKOUT
from boxoffice.tenancy.models import Tier
from boxoffice.ticketing.services.holds import hold_create
from tests.support.cast import Cast
from tests.support.dispatching import call_run
from tests.ticketing.buying import order_place
from tests.tools.proposing import caller_of, propose, put, put_in_force
from tools import dispatch, guard
from tools.models import ToolCall
from tools.outcomes import CallReport, Outcome

RULE = 'rules:\n  - {name: %s, tools: [%s], when: "%s", effect: %s%s}\n'


def rule(tool: str, when: str, effect: str, more: str = "", name: str = "r") -> str:
    return RULE % (name, tool, when, effect, f", {more}" if more else "")


@pytest.fixture(autouse=True)
def nothing_kept() -> None:
    policies_forget()


@pytest.fixture
def scope(arena: Cast) -> Iterator[None]:
    with arena.scope():
        yield


def search(cast: Cast, who: str | None = "ana", **changes: Any) -> CallReport:
    return put(caller_of(cast, who, **changes), "search_events", {"query": "rock"})


def an_order(cast: Cast, *seats: str) -> str:
    """An order of ana's."""
    user_id, ids = cast.user("ana").pk, cast.seats.ids(*seats)
    hold = hold_create(event_id=cast.seats.event.pk, seat_ids=ids, user_id=user_id)
    return str(order_place(hold_id=hold.pk, user_id=user_id, payment_key=str(uuid4())).pk)


def gated(caller: Any, tool: str, arguments: Any) -> ToolCall:
    """A call that waits for its human."""
    call = propose(caller, tool, arguments)
    report = call_run(call_id=call.pk, caller=caller)
    assert report.outcome is Outcome.NEEDS_HUMAN, report.call.error
    with transaction.atomic():
        (waiting,) = dispatch.calls_gate(call_ids=[call.pk], caller=caller, reason="")
    return waiting


LETTER = {"to": "ana@example.com", "subject": "Oi", "body": "Até sábado."}


def refund(order_id: str) -> dict[str, str]:
    return {"order_id": order_id, "reason": "não posso ir"}


def test_without_rules_the_tools_own_gates_hold(arena: Cast, scope: None) -> None:
    call = search(arena).call
    assert (call.verdict, call.policy_version, call.policy_rule) == ("allow", "built-in:1", "")
    assert call.seen == {
        "tier": "pro",
        "role": "fan",
        "may_ask_reviewer": True,
        "days_here": 0,
        "is_tainted": False,
    }


@pytest.mark.parametrize(
    ("effect", "outcome", "verdict"),
    [
        ("allow", Outcome.DONE, "allow"),
        ("confirm", Outcome.NEEDS_HUMAN, ""),
        ("approve", Outcome.NEEDS_HUMAN, ""),
        ("deny", Outcome.DONE, "deny"),
    ],
)
def test_a_rule_decides_on_a_read_too(
    arena: Cast, scope: None, effect: str, outcome: Outcome, verdict: str
) -> None:
    version = put_in_force(rule("search_events", "has(args.query) && args.query == 'rock'", effect))
    report = search(arena)
    assert (report.outcome, report.call.verdict) == (outcome, verdict)
    if verdict:
        assert report.call.policy_version == version.label == "policy:1"
        assert (report.call.policy_rule, report.call.reason_code) == ("r", f"policy_{effect}")


def test_a_gated_call_names_version_and_rule_to_its_reviewer(arena: Cast, scope: None) -> None:
    put_in_force(rule("search_events", "true", "approve", "reviewers: 2"))
    call = gated(caller_of(arena), "search_events", {})
    request = ApprovalRequest.objects.get(pk=call.approval_id)
    assert (request.rule, request.quorum, request.gate) == ("policy:1/r", 2, "reviewer")
    assert (call.verdict, call.policy_version, call.policy_rule) == ("approve", "policy:1", "r")


def test_a_denial_tells_the_model_the_rules_message(arena: Cast, scope: None) -> None:
    put_in_force(rule("search_events", "true", "deny", "message: Closed on Mondays."))
    call = search(arena).call
    assert call.error["code"] == "policy_deny"
    assert call.error["message"] == "Closed on Mondays."


def test_a_rule_holds_for_its_tiers_and_tools_alone(arena: Cast, scope: None) -> None:
    put_in_force(rule("search_events", "true", "deny", "tiers: [free]"))
    assert search(arena, "ana").call.verdict == "allow"
    assert search(arena, "fabio").call.verdict == "deny"
    assert put(caller_of(arena, "fabio"), "search_seats", {}).call.reason_code != "policy_deny"


def test_what_is_final_is_never_done_without_its_fan(arena: Cast, scope: None) -> None:
    order_id = an_order(arena, "P-A1")
    put_in_force(rule("refund_order", "true", "allow"))
    call = gated(caller_of(arena), "refund_order", refund(order_id))
    assert (call.verdict, call.approval.gate) == ("confirm", "fan")


def test_amounts_of_the_preview_decide(arena: Cast, scope: None) -> None:
    order_id = an_order(arena, "P-A1", "P-A2")
    put_in_force(
        rule("refund_order", "preview.after.refunded_brl > 100.0", "approve", "reviewers: 2")
    )
    call = gated(caller_of(arena), "refund_order", refund(order_id))
    assert call.approval.quorum == 2


def test_the_preview_is_made_only_for_a_rule_that_reads_it(
    arena: Cast, scope: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = an_order(arena, "P-A1")
    made = []
    whole = guard.preview_of
    monkeypatch.setattr(guard, "preview_of", lambda *a: made.append(1) or whole(*a))
    put_in_force(rule("refund_order", "args.reason == 'x'", "deny"))
    put(caller_of(arena), "refund_order", refund(order_id))
    assert made == []
    put_in_force(rule("refund_order", "preview.after.refunded_brl > 1.0", "deny"))
    assert put(caller_of(arena), "refund_order", refund(order_id)).call.verdict == "deny"
    assert made == [1]


def test_without_a_preview_to_judge_by_the_model_is_told_why(arena: Cast, scope: None) -> None:
    put_in_force(rule("place_order", "preview.after.paid_brl > 1.0", "confirm"))
    for who in ("ana", "fabio"):
        caller = caller_of(arena, who)
        call = propose(caller, "place_order", {"hold_id": str(uuid4())})
        report = call_run(call_id=call.pk, caller=caller)
        if report.outcome is Outcome.NEEDS_HUMAN:  # nobody is asked about what cannot be shown
            with transaction.atomic():
                assert dispatch.calls_gate(call_ids=[call.pk], caller=caller, reason="") == []
        call.refresh_from_db()
        assert call.state == "denied"
        assert "hold" in call.error["message"].lower(), call.error


def force(source: list[dict[str, Any]]) -> None:
    """Rules that no door would let through: as if tools and tiers had changed since."""
    version = versions.draft_create(source="rules: []")
    PolicyVersion.objects.filter(pk=version.pk).update(rules=source)
    versions.version_activate(version_id=version.pk)


def raw(when: str, effect: str = "allow", **more: Any) -> dict[str, Any]:
    fields = {"name": "r", "tools": ["*"], "tiers": [], "reviewers": 1, "message": ""}
    return fields | {"when": when, "effect": effect} | more


BROKEN = [
    "args.nope > 1",  # a missing field
    "args.query > 1",  # a type error
    "args.query +",  # a syntax error
    "nobody.knows",  # an unknown variable
    "args.query",  # no boolean
    "[1].all(a, [2].all(b, [3].all(c, true)))",  # what could take for ever
    "x" * 10_000,
    "preview.after.refunded_brl > 1.0",  # of a tool without a preview
]


@pytest.mark.parametrize("when", BROKEN)
def test_a_rule_that_fails_asks_a_reviewer(arena: Cast, scope: None, when: str) -> None:
    force([raw(when)])
    call = gated(caller_of(arena), "search_events", {"query": "rock"})
    assert (call.verdict, call.reason_code) == ("approve", "policy_error")
    assert call.approval.gate == "reviewer"


@pytest.mark.parametrize("when", BROKEN)
def test_a_rule_that_fails_denies_where_no_reviewer_may_be_asked(
    arena: Cast, scope: None, when: str
) -> None:
    force([raw(when)])
    for who in ("fabio", None):
        call = search(arena, who).call
        assert (call.verdict, call.reason_code) == ("deny", "policy_error"), who


@pytest.mark.parametrize("stored", [[{}], [{"name": "x"}], [raw("true", "perhaps")], [7]])
def test_rules_that_cannot_be_read_at_all_gate_everything(
    arena: Cast, scope: None, stored: list[Any]
) -> None:
    force(stored)
    assert search(arena).outcome is Outcome.NEEDS_HUMAN
    assert search(arena, "fabio").call.reason_code == "policy_error"


def test_arguments_too_large_to_be_read_are_gated(
    arena: Cast, scope: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in_force(rule("create_ticket", "args.body.contains('x')", "confirm"))
    Tier.objects.filter(slug="pro").update(tools=["create_ticket"])
    fits = {"subject": "oi!", "body": "y" * 5_000}
    assert put(caller_of(arena), "create_ticket", fits).call.verdict == "allow"
    monkeypatch.setattr(rules, "MAX_TEXT", 100)
    call = gated(caller_of(arena), "create_ticket", fits)
    assert call.reason_code == "policy_error"


def test_a_visitor_has_nobody_who_confirms(arena: Cast, scope: None) -> None:
    put_in_force(rule("search_events", "fan.is_anonymous", "confirm"))
    call = search(arena, None).call
    assert (call.verdict, call.reason_code) == ("deny", "sign_in_required")
    assert search(arena, "ana").call.verdict == "allow"


def test_taint_role_time_and_tenant_can_be_asked_for(arena: Cast, scope: None) -> None:
    when = (
        "run.is_tainted && fan.role == 'fan' && tier.slug == 'pro' && tool.risk == 'read' "
        "&& tenant.slug == 'arena' && now > timestamp('2020-01-01T00:00:00Z') && fan.id > 0"
    )
    put_in_force(rule("search_events", when, "deny"))
    assert search(arena).call.verdict == "allow"
    assert search(arena, is_tainted=True).call.verdict == "deny"


def test_shadow_is_recorded_and_has_no_effect(arena: Cast, scope: None) -> None:
    put_in_force(rule("search_events", "true", "deny"), shadow=True)
    call = search(arena).call
    assert (call.verdict, call.state) == ("allow", "succeeded")
    assert (call.shadow_verdict, call.shadow_version, call.shadow_rule) == ("deny", "policy:1", "r")
    assert call.policy_version == "built-in:1"
    call.refresh_from_db()
    assert call.shadow_verdict == "deny"


@pytest.mark.parametrize("when", BROKEN)
def test_a_failing_shadow_breaks_nothing(arena: Cast, scope: None, when: str) -> None:
    version = versions.draft_create(source="rules: []")
    PolicyVersion.objects.filter(pk=version.pk).update(rules=[raw(when)])
    versions.version_shadow(version_id=version.pk)
    call = search(arena).call
    assert (call.verdict, call.state, call.shadow_verdict) == ("allow", "succeeded", "approve")


def test_a_version_takes_effect_on_the_next_call(arena: Cast, scope: None) -> None:
    denied = rule("search_events", "true", "deny")
    assert search(arena).call.verdict == "allow"
    first = put_in_force(denied)
    assert search(arena).call.verdict == "deny"
    put_in_force("rules: []")
    assert search(arena).call.policy_version == "policy:2"
    again = versions.draft_copy(version_id=first.pk)
    versions.version_activate(version_id=again.pk)
    assert search(arena).call.policy_version == "policy:3"
    versions.version_retire(version_id=again.pk)
    call = search(arena).call
    assert (call.verdict, call.policy_version) == ("allow", "built-in:1")


ELSEWHERE = """
import django; django.setup()
from approvals.policies import rules, versions
from boxoffice.tenancy.models import Tenant
from boxoffice.tenancy.scope import tenant_scope
with tenant_scope(Tenant.objects.get(slug="arena").pk):
    draft = versions.draft_create(source={source!r})
    versions.version_activate(version_id=draft.pk)
"""


def test_a_version_that_another_process_puts_in_force_takes_effect(
    arena: Cast, scope: None
) -> None:
    put_in_force("rules: []")
    assert search(arena).call.verdict == "allow"
    source = ELSEWHERE.format(source=rule("search_events", "true", "deny"))
    # The other process writes to the database of the tests.
    url = connection.settings_dict
    name = json.dumps(url["NAME"])
    there = f"from django.conf import settings; settings.DATABASES['default']['NAME'] = {name}\n"
    subprocess.run([sys.executable, "-c", there + source], cwd=CHECKOUT, check=True)
    assert search(arena).call.verdict == "deny"


def test_rules_are_read_once_and_cost_no_query_after_that(arena: Cast, scope: None) -> None:
    put_in_force(rule("search_events", "false", "deny"))
    put_in_force(rule("search_events", "false", "deny"), shadow=True)
    caller = caller_of(arena)

    def queries() -> int:
        call = propose(caller, "search_events", {})
        with CaptureQueriesContext(connection) as captured:
            call_run(call_id=call.pk, caller=caller)
        return len(captured)

    first, second = queries(), queries()
    versions.version_retire(version_id=PolicyVersion.objects.get(state="active").pk)
    versions.version_retire(version_id=PolicyVersion.objects.get(state="shadow").pk)
    assert first == second + 2
    assert queries() == second


def test_rules_are_a_tenants_own(arena: Cast, teatro: Cast) -> None:
    with arena.scope():
        put_in_force(rule("search_events", "true", "deny"))
    with teatro.scope():
        call = put(caller_of(teatro, "teo"), "search_events", {}).call
        assert (call.verdict, call.policy_version) == ("allow", "built-in:1")
    with arena.scope():
        assert search(arena).call.verdict == "deny"


def approved(cast: Cast, call: ToolCall, *names: str) -> None:
    for name in names:
        approvals.approve(request_id=call.approval_id, principal=cast.principal(name))


def again(cast: Cast, call_id: UUID) -> ToolCall:
    caller = caller_of(cast)
    return call_run(call_id=call_id, caller=caller).call


@pytest.mark.parametrize(
    ("later", "code"),
    [
        (("refund_order", "true", "deny", ""), "policy_deny"),
        (("refund_order", "true", "approve", "reviewers: 2"), "approval_void"),
    ],
)
def test_rules_that_ask_more_by_now_void_an_approval(
    arena: Cast, scope: None, later: tuple[str, str, str, str], code: str
) -> None:
    order_id = an_order(arena, "P-A1")
    call = gated(caller_of(arena), "refund_order", refund(order_id))
    approved(arena, call, "rita")
    put_in_force(rule(*later))
    over = again(arena, call.pk)
    assert (over.state, over.error["code"]) == ("denied", code)
    assert arena.counts()["refunds"] == 0


def test_an_edit_that_needs_more_reviewers_voids_an_approval(arena: Cast, scope: None) -> None:
    when = "args.to.endsWith('@elsewhere.com')"
    put_in_force(rule("send_email", when, "approve", "reviewers: 2"))
    call = gated(caller_of(arena), "send_email", LETTER)
    assert call.approval.quorum == 1
    edited = LETTER | {"to": "x@elsewhere.com"}
    approvals.approve(
        request_id=call.approval_id, principal=arena.principal("rita"), arguments=edited
    )
    over = again(arena, call.pk)
    assert (over.state, over.error["code"]) == ("denied", "approval_void")


def test_the_examples_of_the_guide_fit(arena: Cast, scope: None) -> None:
    guide = (CHECKOUT / "docs" / "rules.md").read_text(encoding="utf-8")
    read, warnings = rules_check(guide.split("```yaml\n")[1].split("```")[0])
    assert len(read) == 3
    assert [one.rule for one in warnings] == [read[0].name]  # no refund has been shown yet


def test_rules_that_ask_less_by_now_leave_an_approval_be(arena: Cast, scope: None) -> None:
    put_in_force(rule("send_email", "true", "approve", "reviewers: 2"))
    call = gated(caller_of(arena), "send_email", LETTER)
    approved(arena, call, "rita", "rosa")
    put_in_force("rules: []")
    assert again(arena, call.pk).state == "succeeded"


def test_two_reviewers_have_to_agree_before_it_is_done(arena: Cast, scope: None) -> None:
    put_in_force(rule("send_email", "true", "approve", "reviewers: 2"))
    call = gated(caller_of(arena), "send_email", LETTER)
    approved(arena, call, "rita")
    assert again(arena, call.pk).state == "gated"
    with pytest.raises(AlreadyDecided):
        approved(arena, call, "rita")
    with pytest.raises(FourEyes):
        approved(arena, call, "ana")
    assert again(arena, call.pk).state == "gated"
    approved(arena, call, "rosa")
    assert again(arena, call.pk).state == "succeeded"

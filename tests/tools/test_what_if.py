"""Rules on the calls of the last days: what they would have done, before they do it."""

from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import transaction

from approvals.models import PolicyVersion
from approvals.policies.checks import rules_check
from approvals.policies.current import policies_forget
from approvals.policies.trial import Trial, what_if
from boxoffice.common.clock import now
from boxoffice.common.types import uuid7
from boxoffice.tenancy.models import Membership, Tier
from tests.support.cast import Cast
from tests.support.guards import unguarded
from tests.tools.proposing import caller_of, propose, put, put_in_force
from tools import dispatch, history
from tools.models import ToolCall

LETTER = {"to": "ana@example.com", "subject": "Oi", "body": "Até sábado."}


@pytest.fixture(autouse=True)
def scope(arena: Cast, teatro: Cast) -> Iterator[None]:
    """arena's; in teatro there is a call that nobody here may see."""
    policies_forget()
    with teatro.scope():
        put(caller_of(teatro, "teo"), "search_events", {"query": "rock"})
    with arena.scope():
        yield


def trial(source: str, **options: Any) -> Trial:
    return what_if(rules_check(source)[0], **options)


@pytest.fixture
def calls(arena: Cast) -> None:
    """Four searches, one letter that waits, one that was not granted, one that does not exist."""
    for query in ("rock", "rock", "jazz", "samba"):
        put(caller_of(arena), "search_events", {"query": query})
    letter = propose(caller_of(arena), "send_email", LETTER)
    with transaction.atomic():
        dispatch.calls_gate(call_ids=[letter.pk], caller=caller_of(arena), reason="")
    put(caller_of(arena, "fabio"), "send_email", LETTER)
    put(caller_of(arena), "fly_to_mars", {})
    put(caller_of(arena), "search_events", {"querry": "x"})


def test_counts_and_calls_that_would_change(arena: Cast, calls: None) -> None:
    found = trial(
        "- {name: rock, tools: [search_events], effect: deny,\n"
        "   when: \"has(args.query) && args.query == 'rock'\"}\n"
        "- {name: jazz, tools: ['*'], effect: approve, reviewers: 2,\n"
        "   when: \"has(args.query) && args.query == 'jazz'\"}\n"
        "- {name: letters, tools: [send_email], effect: confirm, when: 'true'}\n"
    )
    assert found.calls == 5
    assert found.before == {"allow": 4, "confirm": 0, "approve": 1, "deny": 0}
    assert found.after == {"allow": 1, "confirm": 1, "approve": 1, "deny": 2}
    assert found.by_rule == {"rock": 2, "jazz": 1, "letters": 1}
    assert (found.changes, found.failed, found.unread, found.is_cut) == (4, 0, 0, False)
    newest = found.changed[0]
    assert (newest.tool, newest.who, newest.before, newest.after.effect) == (
        "send_email",
        "ana",
        "approve",
        "confirm",
    )
    assert newest.arguments == LETTER


def test_nothing_is_changed_by_a_trial(arena: Cast, calls: None) -> None:
    before = list(ToolCall.objects.order_by("pk").values())
    trial("- {name: all, tools: ['*'], effect: deny, when: 'true'}")
    assert list(ToolCall.objects.order_by("pk").values()) == before
    assert not PolicyVersion.objects.exists()


def test_no_rules_would_have_changed_nothing(arena: Cast, calls: None) -> None:
    found = trial("rules: []")
    assert (found.calls, found.changes) == (5, 0)
    assert found.before == found.after


def test_people_are_seen_as_they_were(arena: Cast, calls: None) -> None:
    Membership.objects.filter(user__username="ana").update(tier=Tier.objects.get(slug="free"))
    source = "- {name: pro, tools: ['*'], tiers: [pro], effect: deny, when: 'true'}"
    assert trial(source).changes == 5
    with unguarded("tools_toolcall"):
        ToolCall.objects.update(seen=None)  # as calls from before this was kept
    (letter,) = trial(source).changed  # the free tier may not ask a reviewer
    assert (letter.tool, letter.after.code) == ("send_email", "needs_human")
    assert trial(source.replace("[pro]", "[free]")).changes == 5


def test_taint_and_time_are_those_of_the_call(arena: Cast) -> None:
    put(caller_of(arena, is_tainted=True), "search_events", {})
    put(caller_of(arena), "search_events", {})
    assert trial("- {name: t, tools: ['*'], effect: deny, when: run.is_tainted}").changes == 1
    late = (now() + timedelta(hours=1)).isoformat()
    when = f"now > timestamp('{late}')"
    assert trial(f'- {{name: t, tools: ["*"], effect: deny, when: "{when}"}}').changes == 0


def test_the_preview_is_the_one_that_was_shown(arena: Cast, calls: None) -> None:
    when = "preview.after.subject == 'Oi'"
    source = f'- {{name: oi, tools: [send_email], effect: deny, when: "{when}"}}'
    found = trial(source)
    assert (found.after["deny"], found.failed) == (1, 0)
    ToolCall.objects.filter(tool="send_email", state="gated").update(approval=None, state="denied")
    found = trial(source)
    assert (found.after["approve"], found.failed) == (1, 1)


def test_only_the_last_days_and_the_newest_are_looked_at(
    arena: Cast, calls: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ToolCall.objects.filter(tool="search_events").order_by("pk")[0]
    long_ago = int((now() - timedelta(days=10)).timestamp() * 1000) << 80
    with unguarded("tools_toolcall"):
        ToolCall.objects.filter(pk=old.pk).update(id=type(old.pk)(int=long_ago | (1 << 63) | 7))
    source = "- {name: all, tools: ['*'], effect: deny, when: 'true'}"
    assert trial(source).calls == 4
    assert trial(source, days=30).calls == 5
    monkeypatch.setattr("approvals.policies.trial.MAX_CALLS", 3)
    monkeypatch.setattr(history, "BATCH", 2)
    found = trial(source)
    assert (found.calls, found.is_cut) == (3, True)
    late = trial(source, seconds=-1.0)
    assert (late.calls, late.is_cut) == (0, True)
    ids = [one.call_id for one in found.changed]
    assert ids == sorted(ids, reverse=True)


def test_a_shadow_is_reported(arena: Cast) -> None:
    put(caller_of(arena), "search_events", {"query": "before"})
    rock = "has(args.query) && args.query == 'rock'"
    version = put_in_force(
        f'- {{name: rock, tools: ["*"], effect: deny, when: "{rock}"}}', shadow=True
    )
    for query in ("rock", "jazz", "rock"):
        put(caller_of(arena), "search_events", {"query": query})
    ledger = history.Ledger()
    counts = {(one.effect, one.shadow): one.calls for one in ledger.shadow_counts(version.label)}
    assert counts == {("allow", "deny"): 2, ("allow", "allow"): 1}
    rows = ledger.shadow_differences(version.label, most=10)
    assert [row["arguments"] for row in rows] == [{"query": "rock"}] * 2
    assert {(row["rule"], row["who"], row["effect"], row["shadow"]) for row in rows} == {
        ("rock", "ana", "allow", "deny")
    }
    assert len(ledger.shadow_differences(version.label, most=1)) == 1
    assert ledger.shadow_counts("policy:99") == []


def test_ids_are_cut_off_at_the_right_moment() -> None:
    moment = now()
    assert history._first_id(moment - timedelta(seconds=1)) < uuid7()
    assert history._first_id(moment + timedelta(seconds=5)) > uuid7()


# The command.


def policy(*words: str, stdin: str = "", monkeypatch: Any = None) -> str:
    out = StringIO()
    if monkeypatch is not None:
        monkeypatch.setattr("sys.stdin", StringIO(stdin))
    call_command("policy", "--tenant", "arena", *words, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_the_command_tells_what_would_happen(
    arena: Cast, calls: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "- {name: all, tools: ['*'], effect: deny, when: 'true'}"
    told = policy("what-if", "-", stdin=source, monkeypatch=monkeypatch)
    assert "5 calls of 7 days: allow 4 → 0, confirm 0 → 0, approve 1 → 0, deny 0 → 5" in told
    assert "'all' decides 5" in told
    with pytest.raises(SystemExit) as ended:
        policy("what-if", "-", "--fail-on-change", stdin=source, monkeypatch=monkeypatch)
    assert ended.value.code == 6
    with pytest.raises(CommandError) as error:
        policy("what-if", "-", "--days", "0", stdin=source, monkeypatch=monkeypatch)
    assert error.value.returncode == 2
    assert not PolicyVersion.objects.exists()

"""Rules in the console: written, refused at the place, tried, put in force, taken back."""

import re
from html import unescape
from typing import Any

import pytest
from django.db import transaction
from django.utils.translation import gettext, override

from approvals.models import PolicyVersion
from approvals.policies import versions
from boxoffice.audit.models import AuditRecord
from tests.admin.conftest import console, page
from tests.support.cast import Cast
from tests.tools.proposing import caller_of, put, put_in_force
from tools.models import ToolCall

PATH = "approvals/policyversion/"
DENY = """\
rules:
  - name: no rock
    tools: [search_events]
    when: has(args.query) && args.query == 'rock'
    effect: deny
"""


MEANWHILE = "Version %(number)d was changed meanwhile: look at it again."


def newest() -> PolicyVersion:
    return PolicyVersion.objects.order_by("-number")[0]


def save(name: str, path: str, **fields: Any) -> Any:
    return console(name).post(f"/admin/{PATH}{path}", {"note": "", **fields})


def press(name: str, version: PolicyVersion, button: str) -> Any:
    """Press a button of a page that shows the version as it was read here."""
    client, data = console(name), {"do": button, "seen": version.changed_at.isoformat()}
    return client.post(f"/admin/{PATH}{version.pk}/review/", data, follow=True)


def hidden(reply: Any) -> str:
    """The time of the version that a page was made of."""
    (found,) = re.findall(r'name="seen" value="([^"]+)"', reply.content.decode())
    return str(found)


def told(sentence: str, version: PolicyVersion, **values: Any) -> str:
    """A sentence of the service as this console says it."""
    with override("pt-br"):
        return gettext(sentence) % {"number": version.number, **values}


def review(name: str, version: PolicyVersion, **query: Any) -> Any:
    return page(console(name), f"{PATH}{version.pk}/review/", **query)


@pytest.fixture
def draft(arena: Cast, teatro: Cast) -> PolicyVersion:
    with arena.scope(), transaction.atomic():
        return versions.draft_create(source=DENY, by=arena.user("ada"))


def test_a_draft_is_written_and_rewritten(arena: Cast, teatro: Cast) -> None:
    reply = save("ada", "add/", tenant=arena.tenant.pk, source=DENY.replace("\n", "\r\n"))
    assert reply.status_code == 302
    with arena.scope():
        version = newest()
        assert (version.source, version.author.username) == (DENY, "ada")
        assert version.rules[0]["effect"] == "deny"
    changed = DENY.replace("deny", "confirm")
    seen = hidden(page(console("ada"), f"{PATH}{version.pk}/change/"))
    reply = save("ada", f"{version.pk}/change/", source=changed, note="milder", seen=seen)
    assert reply.status_code == 302
    with arena.scope():
        version.refresh_from_db()
        assert (version.source, version.note) == (changed, "milder")
        rows = AuditRecord.objects.filter(target=version.label).order_by("sequence")
        assert [row.action for row in rows] == [
            "approvals.policy.drafted",
            "approvals.policy.changed",
        ]
        assert {row.actor for row in rows} == {f"user:{arena.user('ada').pk}"}


def test_a_fault_is_shown_at_its_place(arena: Cast, teatro: Cast) -> None:
    source = DENY.replace("args.query == 'rock'", "args.querry == 'rock'")
    reply = save("ada", "add/", tenant=arena.tenant.pk, source=source)
    text = unescape(reply.content.decode())
    assert reply.status_code == 200
    assert "4, " in text
    assert "“querry”" in text
    line = "    when: has(args.query) && args.querry == 'rock'"
    assert f"{line}\n{' ' * 29}^</pre>" in text
    with arena.scope():
        assert newest().source != source


def test_a_page_shows_what_would_have_been_done(
    arena: Cast, draft: PolicyVersion, subtests: pytest.Subtests
) -> None:
    with arena.scope():
        for query in ("rock", "rock", "jazz"):
            put(caller_of(arena), "search_events", {"query": query})
        calls = [
            str(pk) for pk in ToolCall.objects.filter(verdict="allow").values_list("pk", flat=True)
        ]
    reply = review("ada", draft)
    trial = reply.context["trial"]
    assert (trial.calls, trial.changes, trial.by_rule) == (3, 2, {"no rock": 2})
    text = reply.content.decode()
    assert [pk in text for pk in sorted(calls)] == [True, True, False]
    assert review("ada", draft, days=30).context["days"] == 30
    assert review("ada", draft, days="x").context["days"] == 7
    for name, status in (("root", 200), ("tina", 404), ("rita", 302), ("ana", 302)):
        with subtests.test(name):
            assert review(name, draft).status_code == status


def test_shadow_then_force_then_back(arena: Cast, draft: PolicyVersion) -> None:
    press("ada", draft, "shadow")
    with arena.scope():
        assert put(caller_of(arena), "search_events", {"query": "rock"}).call.verdict == "allow"
    reply = review("ada", draft)
    assert reply.context["shadow_total"] == 1
    ((_, _, count, differs),) = reply.context["shadow_rows"]
    assert (count, differs) == (1, True)
    assert "no rock" in reply.content.decode()
    press("ada", draft, "activate")
    with arena.scope():
        assert put(caller_of(arena), "search_events", {"query": "rock"}).call.verdict == "deny"
        put_in_force("rules: []")
        assert put(caller_of(arena), "search_events", {"query": "rock"}).call.verdict == "allow"
    press("ada", draft, "copy")
    with arena.scope():
        copy = newest()
        assert (copy.state, copy.copied_from, copy.source) == ("draft", draft.number, DENY)
    diff = review("ada", copy).context["diff"]
    assert "+  - name: no rock" in diff
    press("ada", copy, "activate")
    with arena.scope():
        assert put(caller_of(arena), "search_events", {"query": "rock"}).call.verdict == "deny"
    press("ada", copy, "retire")
    with arena.scope():
        assert put(caller_of(arena), "search_events", {"query": "rock"}).call.verdict == "allow"
    said = [str(one) for one in press("ada", copy, "activate").context["messages"]]
    assert len(said) == 1
    assert str(copy.number) in said[0]


def test_what_is_no_draft_is_shown_and_not_changed(arena: Cast, draft: PolicyVersion) -> None:
    press("ada", draft, "activate")
    reply = page(console("ada"), f"{PATH}{draft.pk}/change/")
    assert reply.status_code == 200
    assert 'name="_save"' not in reply.content.decode()
    assert 'name="seen"' not in reply.content.decode()
    written = DENY.replace("rock", "polka")
    reply = save("ada", f"{draft.pk}/change/", source=written, seen=draft.changed_at.isoformat())
    text = unescape(reply.content.decode())
    assert told("Version %(number)d is %(state)s.", draft, state="em vigor") in text
    assert "polka" in text
    with arena.scope():
        assert PolicyVersion.objects.get(pk=draft.pk).source == DENY
    assert console("root").post(f"/admin/{PATH}{draft.pk}/delete/").status_code == 403


def test_what_somebody_else_has_changed_is_not_written_over(
    arena: Cast, draft: PolicyVersion
) -> None:
    path = f"{draft.pk}/change/"
    seen = hidden(page(console("ada"), f"{PATH}{path}"))
    first, second = (DENY.replace("rock", word) for word in ("polka", "samba"))
    assert save("root", path, source=first, seen=seen).status_code == 302
    for stale in (seen, "", "no time"):
        reply = save("ada", path, source=second, note="mine", seen=stale)
        text = unescape(reply.content.decode())
        assert reply.status_code == 200
        assert told(MEANWHILE, draft) in text
        assert "samba" in text
        assert 'value="mine"' in text
        assert "messages" not in reply.context or not list(reply.context["messages"])
    with arena.scope():
        draft.refresh_from_db()
        assert draft.source == first


@pytest.mark.parametrize("button", ["shadow", "activate"])
def test_a_draft_changed_meanwhile_is_not_brought_in_unseen(
    arena: Cast, draft: PolicyVersion, button: str
) -> None:
    with arena.scope(), transaction.atomic():
        later = versions.draft_change(version_id=draft.pk, source="rules: []", note="")
    (said,) = press("ada", draft, button).context["messages"]
    assert told(MEANWHILE, draft) == str(said)
    with arena.scope():
        draft.refresh_from_db()
    assert draft.state == "draft"
    assert hidden(review("ada", draft)) == later.changed_at.isoformat()
    press("ada", later, button)
    with arena.scope():
        draft.refresh_from_db()
    assert draft.state != "draft"


@pytest.mark.parametrize("button", ["shadow", "activate", "retire", "copy"])
def test_buttons_are_for_those_who_configure_the_tenant(
    arena: Cast, draft: PolicyVersion, button: str
) -> None:
    for name in ("tina", "rita", "ana"):
        press(name, draft, button)
    assert console("ada").get(f"/admin/{PATH}{draft.pk}/review/", {"do": button}).status_code == 200
    with arena.scope():
        assert PolicyVersion.objects.get(pk=draft.pk).state == "draft"
        assert newest().pk == draft.pk
    assert press("ada", draft, "destroy").status_code == 404


def test_a_version_that_fits_no_more_says_so(arena: Cast, draft: PolicyVersion) -> None:
    with arena.scope():
        PolicyVersion.objects.filter(pk=draft.pk).update(source=DENY.replace("search_", "find_"))
    reply = review("ada", draft)
    assert reply.context["is_broken"]
    assert "find_events" in reply.content.decode()
    assert 'value="activate"' not in reply.content.decode()
    press("ada", draft, "activate")
    with arena.scope():
        assert PolicyVersion.objects.get(pk=draft.pk).state == "draft"

"""The inbox page: who gets in, what it shows, what its forms do with and without scripts."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals import services
from approvals.models import ApprovalRequest, Decision
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import PREVIEW, Cast

INBOX = "/t/arena/approvals/"
HTMX = {"HX-Request": "true"}


def stored(cast: Cast, request: ApprovalRequest) -> ApprovalRequest:
    with tenant_scope(cast.arena.pk):
        found: ApprovalRequest = ApprovalRequest.objects.get(pk=request.pk)
        return found


class TestWhoGetsIn:
    TABLE = {"ana": 403, "bia": 403, "rita": 200, "ada": 200, "rui": 404}

    @pytest.mark.parametrize("who", TABLE)
    def test_pages(self, cast: Cast, ask: Any, who: str) -> None:
        client, request = cast.client(who), ask()
        for path in (INBOX, f"{INBOX}{request.pk}/"):
            assert client.get(path).status_code == self.TABLE[who]

    @pytest.mark.parametrize("who", ["ana", "bia", "rui"])
    @pytest.mark.parametrize("verb", ["approve", "deny"])
    def test_forms(self, cast: Cast, ask: Any, who: str, verb: str) -> None:
        request = ask()
        answer = cast.client(who).post(f"{INBOX}{request.pk}/{verb}/", {"reason": "because"})
        assert answer.status_code == self.TABLE[who]
        assert stored(cast, request).state == "pending"

    @pytest.mark.parametrize("verb", ["", "approve/", "deny/"])
    def test_a_visitor_signs_in_first(self, cast: Cast, ask: Any, verb: str) -> None:
        path = f"{INBOX}{ask().pk}/{verb}"
        client = cast.client(None)
        answer = client.post(path) if verb else client.get(path)
        assert answer.status_code == 302
        assert answer["Location"] == f"/accounts/login/?next={path}"

    def test_a_reviewer_of_another_tenant_finds_nothing(self, cast: Cast, ask: Any) -> None:
        path = f"/t/teatro/approvals/{ask().pk}/"
        client = cast.client("rui")
        assert client.get("/t/teatro/approvals/").status_code == 200
        assert client.get(path).status_code == 404
        assert client.post(f"{path}approve/").status_code == 404

    def test_a_confirmation_is_not_the_inboxes(self, cast: Cast, ask: Any) -> None:
        mine = ask(gate="fan", requested_for_id=cast.rita.pk)
        client = cast.client("rita")
        assert str(mine.pk) not in client.get(f"{INBOX}?state=all").content.decode()
        assert client.get(f"{INBOX}{mine.pk}/").status_code == 404

    def test_a_form_needs_its_csrf_token(self, cast: Cast, ask: Any) -> None:
        request = ask()
        client = cast.client("rita", enforce_csrf_checks=True)
        assert client.post(f"{INBOX}{request.pk}/approve/").status_code == 403
        page = client.get(f"{INBOX}{request.pk}/").content.decode()
        token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert token is not None
        client.post(f"{INBOX}{request.pk}/approve/", {"csrfmiddlewaretoken": token[1]})
        assert stored(cast, request).state == "approved"


class TestList:
    def test_what_waits_is_shown(self, cast: Cast, ask: Any) -> None:
        request = ask()
        page = cast.client("rita").get(INBOX).content.decode()
        assert str(request.pk) in page
        assert "Refund R$ 480.00" in page
        assert "<title>(1) " in page

    def test_filters_by_state_and_tool(self, cast: Cast, ask: Any) -> None:
        refund, email, done = ask(), ask(action="send_email"), ask()
        with tenant_scope(cast.arena.pk):
            services.approve(request_id=done.pk, principal=cast.principal("rita"))
        client = cast.client("rita")

        def shown(query: str) -> set[Any]:
            page = client.get(f"{INBOX}?{query}").content.decode()
            return {row.pk for row in (refund, email, done) if f"row-{row.pk}" in page}

        assert shown("") == shown("state=pending") == shown("state=rubbish")
        assert shown("") == {refund.pk, email.pk}
        assert shown("tool=send_email") == {email.pk}
        assert shown("state=approved") == {done.pk}
        assert shown("state=all") == {refund.pk, email.pk, done.pk}
        assert shown("state=all&before=rubbish") == {refund.pk, email.pk, done.pk}
        assert shown(f"state=all&before={email.pk}") == {refund.pk}

    def test_an_empty_inbox_says_so(self, cast: Cast) -> None:
        client = cast.client("rita")
        client.cookies["django_language"] = "en"
        assert "Nothing waits for you" in client.get(INBOX).content.decode()
        assert "No request fits" in client.get(f"{INBOX}?state=denied").content.decode()

    def test_the_list_alone_for_the_script(self, cast: Cast, ask: Any) -> None:
        request = ask()
        answer = cast.client("rita").get(INBOX, headers=HTMX)
        text = answer.content.decode()
        assert "<html" not in text
        assert f"row-{request.pk}" in text
        assert "HX-Request" in answer["Vary"]
        assert answer["Cache-Control"] == "no-store"

    def test_going_back_loads_the_whole_page(self, cast: Cast) -> None:
        headers = HTMX | {"HX-History-Restore-Request": "true"}
        assert "<html" in cast.client("rita").get(INBOX, headers=headers).content.decode()

    def test_the_number_of_queries_does_not_grow(self, cast: Cast, ask: Any) -> None:
        client, counts = cast.client("rita"), []
        for _ in range(2):
            for _ in range(3):
                ask()
            with CaptureQueriesContext(connection) as queries:
                client.get(INBOX)
            counts.append(len(queries))
        assert counts[0] == counts[1]

    def test_older_requests_are_a_link_away(
        self, cast: Cast, ask: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("approvals.views.PAGE_SIZE", 2)
        first, second, third = ask(), ask(), ask()
        client = cast.client("rita")
        page = client.get(INBOX).content.decode()
        assert f"row-{third.pk}" in page
        assert f"row-{first.pk}" not in page
        link = re.search(r'href="([^"]*before=[^"]*)"', page)
        assert link is not None
        older = client.get(link[1].replace("&amp;", "&")).content.decode()
        assert f"row-{first.pk}" in older
        assert f"row-{second.pk}" not in older


class TestPanel:
    def read(self, cast: Cast, request: ApprovalRequest, who: str = "rita") -> str:
        client = cast.client(who)
        client.cookies["django_language"] = "en"
        return client.get(f"{INBOX}{request.pk}/", headers=HTMX).content.decode()

    def test_it_shows_what_a_reviewer_needs(self, cast: Cast, ask: Any) -> None:
        text = self.read(cast, ask())
        for wanted in (
            "refund_order",
            "risk: destructive",
            "o-1",
            "doente",
            "Refund R$ 480.00",
            "irreversible",
            "destructive-needs-reviewer",
            "Refunds are decided by a person.",
            "ana",
        ):
            assert wanted in text
        assert re.search(r"paid</td>\s*<td>refunded</td>", text)

    def test_it_shows_how_to_undo_and_what_to_mind(self, cast: Cast, ask: Any) -> None:
        preview = PREVIEW | {"undo": "Buy again", "warnings": ["Show in 2 hours"], "fee": 12}
        text = self.read(cast, ask(preview=preview))
        assert "Buy again" in text
        assert "Show in 2 hours" in text
        assert "fee" in text

    def test_it_leads_to_the_conversation(self, cast: Cast, ask: Any) -> None:
        request = ask()
        page = cast.client("rita").get(f"{INBOX}{request.pk}/").content.decode()
        assert request.conversation_ref is not None
        assert f'href="/t/arena/c/{request.conversation_ref}/"' in page

    def test_without_a_preview_it_says_so(self, cast: Cast, ask: Any) -> None:
        assert "cannot say in advance" in self.read(cast, ask(preview=None))

    def test_text_of_the_model_is_only_text(self, cast: Cast, ask: Any) -> None:
        attack = "<script>alert(1)</script>"
        text = self.read(
            cast, ask(arguments={"body": attack}, reason=attack, preview={"summary": attack})
        )
        assert attack not in text
        assert "&lt;script&gt;" in text

    def test_who_asked_is_offered_no_buttons(self, cast: Cast, ask: Any) -> None:
        for who, request in (
            ("rita", ask(requested_for_id=cast.rita.pk)),
            ("anita", ask()),
        ):
            text = self.read(cast, request, who)
            assert "<form" not in text
            assert "You cannot decide" in text

    def test_who_has_approved_waits_for_another(self, cast: Cast, ask: Any) -> None:
        request = ask(quorum=2)
        with tenant_scope(cast.arena.pk):
            services.approve(request_id=request.pk, principal=cast.principal("rita"))
        text = self.read(cast, request)
        assert "<form" not in text
        assert "1 of 2 approvals" in text
        other = self.read(cast, request, "raul")
        assert "<form" in other
        assert 'type="hidden" name="arguments"' in other

    def test_nothing_is_inline(self, cast: Cast, ask: Any) -> None:
        client = cast.client("rita")
        answer = client.get(f"{INBOX}{ask().pk}/")
        text = answer.content.decode()
        assert " style=" not in text
        assert "<style" not in text
        assert not re.search(r"\son\w+=", text)
        for script in re.findall(r"<script[^>]*>", text):
            assert "src=" in script
        assert "unsafe" not in answer["Content-Security-Policy"]


class TestForms:
    def test_approve_without_scripts(self, cast: Cast, ask: Any) -> None:
        request = ask()
        path = f"{INBOX}{request.pk}/"
        answer = cast.client("rita").post(f"{path}approve/?state=all", {"note": "fine"})
        assert (answer.status_code, answer["Location"]) == (302, f"{path}?state=all")
        done = stored(cast, request)
        assert done.state == "approved"
        with tenant_scope(cast.arena.pk):
            assert Decision.objects.get().note == "fine"

    def test_deny_with_scripts(self, cast: Cast, ask: Any) -> None:
        request, client = ask(), cast.client("rita")
        client.cookies["django_language"] = "en"
        answer = client.post(f"{INBOX}{request.pk}/deny/", {"reason": "too late"}, headers=HTMX)
        text = answer.content.decode()
        assert answer.status_code == 200
        assert answer["HX-Trigger"] == "approvals:refresh"
        assert "too late" in text
        assert "<form" not in text
        assert stored(cast, request).state == "denied"

    def test_a_missing_reason_is_said_and_what_was_written_stays(
        self, cast: Cast, ask: Any
    ) -> None:
        request = ask()
        answer = cast.client("rita").post(
            f"{INBOX}{request.pk}/deny/", {"reason": "xy"}, headers=HTMX
        )
        text = answer.content.decode()
        assert answer.status_code == 422
        assert 'role="alert"' in text
        assert ">xy</textarea>" in text
        assert stored(cast, request).state == "pending"

    def test_edited_arguments(self, cast: Cast, ask: Any, port: object) -> None:
        request = ask()
        cast.client("rita").post(
            f"{INBOX}{request.pk}/approve/",
            {"arguments": '{"order_id": "o-1", "reason": "cancelled"}'},
        )
        done = stored(cast, request)
        assert done.state == "approved"
        assert done.edited_arguments == {"order_id": "o-1", "reason": "cancelled"}

    @pytest.mark.parametrize(
        "text",
        [
            "{",
            "[1]",
            "7",
            '{"x": 1}',
            "[" * 100_000,
            '{"a": NaN}',
            '{"a": "\\ud800"}',
            '{"a": "\\u0000"}',
        ],
    )
    def test_bad_arguments_are_said_and_stay(
        self, cast: Cast, ask: Any, port: object, text: str
    ) -> None:
        request = ask()
        answer = cast.client("rita").post(
            f"{INBOX}{request.pk}/approve/", {"arguments": text}, headers=HTMX
        )
        assert answer.status_code == 422
        assert "arguments" in answer.content.decode()
        assert stored(cast, request).state == "pending"

    def test_a_reason_that_cannot_be_stored_is_said(self, cast: Cast, ask: Any) -> None:
        request = ask()
        answer = cast.client("rita").post(f"{INBOX}{request.pk}/deny/", {"reason": "abc\0"})
        assert answer.status_code == 422
        assert stored(cast, request).state == "pending"

    def test_unchanged_arguments_of_the_editor_are_no_edit(self, cast: Cast, ask: Any) -> None:
        request = ask()
        text = '{\n  "order_id": "o-1",\n  "reason": "doente"\n}'
        cast.client("rita").post(f"{INBOX}{request.pk}/approve/", {"arguments": text})
        assert stored(cast, request).edited_arguments is None

    def test_who_is_late_sees_who_was_first(self, cast: Cast, ask: Any) -> None:
        request = ask()
        cast.client("rita").post(f"{INBOX}{request.pk}/deny/", {"reason": "because"})
        answer = cast.client("raul").post(f"{INBOX}{request.pk}/approve/", headers=HTMX)
        assert answer.status_code == 409
        assert "rita" in answer.content.decode()
        assert stored(cast, request).state == "denied"

    def test_four_eyes_hold_against_a_forged_form(self, cast: Cast, ask: Any) -> None:
        request = ask()
        answer = cast.client("anita").post(f"{INBOX}{request.pk}/approve/")
        assert answer.status_code == 403
        assert stored(cast, request).state == "pending"

    @pytest.mark.parametrize("verb", ["approve", "deny"])
    def test_a_link_decides_nothing(self, cast: Cast, ask: Any, verb: str) -> None:
        assert cast.client("rita").get(f"{INBOX}{ask().pk}/{verb}/").status_code == 405

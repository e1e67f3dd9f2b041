"""Approve, deny, withdraw: who may, once, and what is left behind."""

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser

from approvals import ports, services, signals
from approvals.exceptions import AlreadyDecided, FourEyes
from approvals.models import ApprovalRequest, Decision
from boxoffice.audit.models import AuditRecord
from boxoffice.common.exceptions import BoxOfficeError, InvalidInput, NotFound
from boxoffice.tenancy.principals import principal_for
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast


def outcome(cast: Cast, who: str, act: Any, request: ApprovalRequest) -> str:
    """What happens when ``who`` tries: the new state, or the error's code."""
    if who == "anonymous":
        principal = principal_for(tenant=cast.arena, user=AnonymousUser())
    else:
        principal = cast.principal(who)
    with tenant_scope(principal.tenant_id):
        try:
            return str(act(request_id=request.pk, principal=principal).state)
        except BoxOfficeError as error:
            return error.code


def approve(**kwargs: Any) -> ApprovalRequest:
    return services.approve(**kwargs)


def deny(**kwargs: Any) -> ApprovalRequest:
    return services.deny(reason="not this time", **kwargs)


def withdraw(**kwargs: Any) -> ApprovalRequest:
    return services.withdraw(**kwargs)


# who: (approve, deny, withdraw)
REVIEWER_GATE = {
    "ana": ("four_eyes", "four_eyes", "withdrawn"),
    "bia": ("not_found", "not_found", "not_found"),
    "rita": ("approved", "denied", "not_found"),
    "ada": ("approved", "denied", "not_found"),
    "anita": ("four_eyes", "four_eyes", "not_found"),
    "rui": ("not_found", "not_found", "not_found"),
    "anonymous": ("not_found", "not_found", "not_found"),
}
FAN_GATE = {
    "ana": ("approved", "denied", "withdrawn"),
    "bia": ("not_found", "not_found", "not_found"),
    "rita": ("not_found", "not_found", "not_found"),
    "ada": ("not_found", "not_found", "not_found"),
    "anita": ("not_found", "not_found", "not_found"),
    "rui": ("not_found", "not_found", "not_found"),
    "anonymous": ("not_found", "not_found", "not_found"),
}


@pytest.mark.parametrize(("gate", "table"), [("reviewer", REVIEWER_GATE), ("fan", FAN_GATE)])
def test_who_may_decide(cast: Cast, ask: Any, gate: str, table: dict[str, Any]) -> None:
    seen = {
        who: tuple(outcome(cast, who, act, ask(gate=gate)) for act in (approve, deny, withdraw))
        for who in table
    }
    assert seen == table


def test_a_reviewer_who_asked_does_not_decide(cast: Cast, ask: Any) -> None:
    request = ask(requested_for_id=cast.rita.pk)
    assert outcome(cast, "rita", approve, request) == "four_eyes"
    assert outcome(cast, "rita", deny, request) == "four_eyes"
    assert outcome(cast, "raul", approve, request) == "approved"


def test_two_accounts_without_an_address_are_two_people(cast: Cast, ask: Any) -> None:
    for user in (cast.ana, cast.anita):
        user.email = ""
        user.save()
    assert outcome(cast, "anita", approve, ask()) == "approved"


@pytest.mark.django_db(transaction=True)
def test_an_approval_leaves_a_decision_a_record_and_a_signal(
    cast: Cast, ask: Any, heard: SimpleNamespace, in_arena: None
) -> None:
    request = ask()
    services.approve(request_id=request.pk, principal=cast.principal("rita"), note=" fine ")
    decision = Decision.objects.get()
    assert (decision.verb, decision.user, decision.note) == ("approve", cast.rita, "fine")
    request.refresh_from_db()
    assert request.decided_at is not None
    record = AuditRecord.objects.filter(action="approvals.request.approved").get()
    assert record.actor == f"user:{cast.rita.pk}"
    assert heard.decided == [
        {
            "request_id": request.pk,
            "tenant_id": cast.arena.pk,
            "state": "approved",
            "gate": "reviewer",
            "reference": request.reference,
        }
    ]


@pytest.mark.django_db(transaction=True)
def test_a_listener_that_fails_undoes_nothing(cast: Cast, ask: Any, in_arena: None) -> None:
    def fail(**message: Any) -> None:
        raise RuntimeError("listener")

    signals.decided.connect(fail)
    try:
        done = services.approve(request_id=ask().pk, principal=cast.principal("rita"))
    finally:
        signals.decided.disconnect(fail)
    assert ApprovalRequest.objects.get(pk=done.pk).state == "approved"


@pytest.mark.parametrize("reason", ["", "  ", "no", " no "])
def test_a_reviewer_gives_a_reason(cast: Cast, ask: Any, in_arena: None, reason: str) -> None:
    request = ask()
    with pytest.raises(InvalidInput, match="reason"):
        services.deny(request_id=request.pk, principal=cast.principal("rita"), reason=reason)
    request.refresh_from_db()
    assert request.state == "pending"
    assert not Decision.objects.exists()


def test_a_fan_declines_without_one(cast: Cast, ask: Any, in_arena: None) -> None:
    done = services.deny(request_id=ask(gate="fan").pk, principal=cast.principal("ana"), reason="")
    assert done.state == "denied"


def test_a_text_without_end_is_refused(cast: Cast, ask: Any, in_arena: None) -> None:
    with pytest.raises(InvalidInput, match="2000"):
        services.approve(request_id=ask().pk, principal=cast.principal("rita"), note="x" * 2001)


def test_a_decided_request_says_who_and_when(cast: Cast, ask: Any, in_arena: None) -> None:
    request = ask()
    services.deny(request_id=request.pk, principal=cast.principal("rita"), reason="too late")
    for act in (approve, deny):
        with pytest.raises(AlreadyDecided) as caught:
            act(request_id=request.pk, principal=cast.principal("raul"))
        assert caught.value.extra["state"] == "denied"
        assert caught.value.extra["decided_by"] == "rita"
        assert caught.value.extra["decided_at"] == Decision.objects.get().created_at
    with pytest.raises(AlreadyDecided):
        services.withdraw(request_id=request.pk, principal=cast.principal("ana"))


def test_an_unknown_request_is_not_found(cast: Cast, in_arena: None) -> None:
    with pytest.raises(NotFound):
        services.approve(request_id=cast.arena.pk, principal=cast.principal("rita"))


@pytest.mark.django_db(transaction=True)
def test_two_reviewers_for_a_quorum_of_two(
    cast: Cast, ask: Any, in_arena: None, heard: SimpleNamespace
) -> None:
    request = ask(quorum=2)
    first = services.approve(request_id=request.pk, principal=cast.principal("rita"))
    assert first.state == "pending"
    with pytest.raises(AlreadyDecided) as caught:
        services.approve(request_id=request.pk, principal=cast.principal("rita"))
    assert caught.value.extra["decided_by"] == "rita"
    with pytest.raises(FourEyes):
        services.approve(request_id=request.pk, principal=cast.principal("ana"))
    second = services.approve(request_id=request.pk, principal=cast.principal("raul"))
    assert second.state == "approved"
    assert [one["state"] for one in heard.decided] == ["approved"]


def test_one_no_ends_a_quorum_of_two(cast: Cast, ask: Any, in_arena: None) -> None:
    request = ask(quorum=2)
    services.approve(request_id=request.pk, principal=cast.principal("rita"))
    done = services.deny(
        request_id=request.pk, principal=cast.principal("raul"), reason="no refund after the show"
    )
    assert done.state == "denied"


class TestEditedArguments:
    def test_they_are_checked_kept_apart_and_previewed(
        self, cast: Cast, ask: Any, in_arena: None, port: object
    ) -> None:
        done = services.approve(
            request_id=ask().pk,
            principal=cast.principal("rita"),
            arguments={"order_id": "o-2", "reason": " ill "},
        )
        assert done.arguments == {"order_id": "o-1", "reason": "doente"}
        assert done.effective_arguments == {"order_id": "o-2", "reason": "ill"}
        assert done.effective_preview == {"summary": "Refund o-2", "undo": None}
        assert Decision.objects.get().arguments == {"order_id": "o-2", "reason": "ill"}

    def test_unchanged_ones_are_no_edit(
        self, cast: Cast, ask: Any, in_arena: None, port: object
    ) -> None:
        done = services.approve(
            request_id=ask().pk,
            principal=cast.principal("rita"),
            arguments={"reason": "doente", "order_id": "o-1"},
        )
        assert done.edited_arguments is None
        assert Decision.objects.get().arguments is None

    def test_invalid_ones_change_nothing(
        self, cast: Cast, ask: Any, in_arena: None, port: object
    ) -> None:
        request = ask()
        with pytest.raises(InvalidInput, match="nothing else"):
            services.approve(
                request_id=request.pk, principal=cast.principal("rita"), arguments={"tenant": "x"}
            )
        request.refresh_from_db()
        assert request.state == "pending"
        assert not Decision.objects.exists()

    def test_a_fan_cannot_edit(self, cast: Cast, ask: Any, in_arena: None, port: object) -> None:
        with pytest.raises(InvalidInput):
            services.approve(
                request_id=ask(gate="fan").pk,
                principal=cast.principal("ana"),
                arguments={"order_id": "o-2", "reason": "x"},
            )

    def test_nobody_edits_what_another_has_approved(
        self, cast: Cast, ask: Any, in_arena: None, port: object
    ) -> None:
        request = ask(quorum=2)
        services.approve(request_id=request.pk, principal=cast.principal("rita"))
        with pytest.raises(InvalidInput, match="approved them"):
            services.approve(
                request_id=request.pk,
                principal=cast.principal("raul"),
                arguments={"order_id": "o-2", "reason": "x"},
            )

    def test_nothing_is_edited_while_nobody_owns_the_actions(
        self, cast: Cast, ask: Any, in_arena: None
    ) -> None:
        before = ports.port()
        ports.register(ports.NO_ACTIONS)
        try:
            with pytest.raises(InvalidInput, match="cannot be edited"):
                services.approve(
                    request_id=ask().pk,
                    principal=cast.principal("rita"),
                    arguments={"order_id": "o-2", "reason": "x"},
                )
        finally:
            ports.register(before)


class TestSettle:
    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("result", ["executed", "failed", "unknown"])
    def test_what_came_of_it_is_kept(
        self, cast: Cast, ask: Any, in_arena: None, heard: SimpleNamespace, result: Any
    ) -> None:
        request = services.approve(request_id=ask().pk, principal=cast.principal("rita"))
        done = services.settle(request_id=request.pk, outcome=result, detail={"refund": "r-1"})
        assert (done.state, done.settled) == (result, {"refund": "r-1"})
        assert done.settled_at is not None
        assert [one["state"] for one in heard.settled] == [result]
        assert AuditRecord.objects.filter(action=f"approvals.request.{result}").count() == 1

    def test_only_once_and_only_after_a_yes(self, cast: Cast, ask: Any, in_arena: None) -> None:
        request = ask()
        with pytest.raises(AlreadyDecided):
            services.settle(request_id=request.pk, outcome="executed", detail={})
        services.approve(request_id=request.pk, principal=cast.principal("rita"))
        services.settle(request_id=request.pk, outcome="executed", detail={})
        with pytest.raises(AlreadyDecided):
            services.settle(request_id=request.pk, outcome="failed", detail={})
        request.refresh_from_db()
        assert request.state == "executed"


def test_a_reviewers_rights_end_at_their_own_tenant(cast: Cast, ask: Any) -> None:
    request, stranger = ask(), cast.principal("rui")
    with tenant_scope(cast.arena.pk), pytest.raises(NotFound):
        services.approve(request_id=request.pk, principal=stranger)

"""E-mail and tickets from the agent."""

from typing import Any

from boxoffice.ticketing.models import OutboundEmail, SupportTicket
from tests.ticketing.factory import House
from tests.tools.catalogue.conftest import Call

LETTER = {"to": "ana@example.com", "subject": "Oi", "body": "Seus ingressos."}


def test_an_email_is_queued_once_for_one_key(call: Call, house: House) -> None:
    first = call("send_email", key="k", **LETTER)
    again = call("send_email", key="k", **LETTER)
    assert first == again
    assert first["status"] == "queued"
    [row] = OutboundEmail.objects.all()
    assert (row.to, row.subject, row.body, row.user_id) == (*LETTER.values(), house.ana.pk)


def test_the_preview_shows_the_whole_letter_and_warns_of_other_addresses(preview: Call) -> None:
    shown: Any = preview("send_email", **LETTER)
    assert shown["after"] == LETTER
    assert shown["before"] == {}
    assert shown["warnings"] == []
    assert OutboundEmail.objects.count() == 0
    other = preview("send_email", **{**LETTER, "to": "someone@example.com"})
    assert len(other["warnings"]) == 1


def test_a_ticket_is_opened_once_for_one_key(call: Call, house: House) -> None:
    text = {"subject": "Acesso", "body": "Qual é a entrada acessível?"}
    first = call("create_ticket", key="k", **text)
    assert first == call("create_ticket", key="k", **text)
    [row] = SupportTicket.objects.all()
    assert first == {"ticket_id": str(row.pk), "status": "open"}
    assert row.user_id == house.ana.pk

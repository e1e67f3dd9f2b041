"""The people of the box office: who waits for them, and the inbox under the keyboard."""

from collections.abc import Callable
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from playwright.sync_api import expect

from approvals.models import ApprovalRequest
from approvals.services import request_create
from boxoffice.common.types import uuid7
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.scope import tenant_scope
from tests.support.scripted_model import Reply, ScriptedModel
from tests.support.stack import Stack
from tests.web.chat import WAIT_MS, Window, elsewhere

type Open = Callable[..., Window]

# The desk asks for itself every ten seconds.
expect.set_options(timeout=WAIT_MS)

DESK = "/t/arena/handoffs/"
INBOX = "/t/arena/approvals/"


@pytest.fixture
def rita(window: Open, scripted: Stack) -> Window:
    return window(scripted)


def test_handoff_appears_is_answered_in_the_same_chat_and_leaves(
    house: Tenant, scripted: Stack, model: ScriptedModel, window: Open, rita: Window
) -> None:
    rita.sign_in("rita", to=DESK)
    expect(rita.page.locator(".desk-empty")).to_be_visible()
    expect(rita.page.locator("#desk-count")).to_be_hidden()

    seats = ("search_seats", {"event_id": str(uuid4()), "quantity": 2})
    model.route(lambda body: Reply.tools(seats, text="Vou tentar."))
    ana = window(scripted)
    ana.sign_in("ana")
    ana.start("quero um lugar que não existe")
    ana.page.get_by_text("Uma pessoa da bilheteria continua daqui.").wait_for()

    # Without a reload: the list asks for itself.
    row = rita.page.locator(".desk-row")
    expect(row).to_contain_text("quero um lugar que não existe")
    expect(row).to_contain_text("O assistente insistiu em algo que não dá certo.")
    expect(rita.page.locator("#desk-count")).to_contain_text("1")
    expect(rita.page).to_have_title("(1) Atendimento · Arena Guanabara")
    assert rita.violations() == []

    row.get_by_role("link", name="Ler e responder").click()
    expect(rita.page.locator("#waits")).to_be_visible()
    rita.page.locator("#log h3").first.wait_for(state="attached")  # drawn by the script
    rita.say("Oi, aqui é a Rita. Posso ajudar?")
    ana.page.get_by_text("aqui é a Rita").wait_for()
    expect(rita.page.locator("#waits")).to_be_hidden()
    rita.go(DESK)
    expect(rita.page.locator(".desk-empty")).to_be_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_desk_fits(scripted: Stack, rita: Window, width: int) -> None:
    rita.page.set_viewport_size({"width": width, "height": 800})
    rita.sign_in("rita", to=DESK)
    assert not rita.is_too_wide()


def two_requests(house: Tenant) -> list[UUID]:
    """Refunds that wait for a reviewer, newest first as in the list."""
    with tenant_scope(house.pk), transaction.atomic():
        made = [
            request_create(
                action="refund_order",
                arguments={"order_id": str(uuid7()), "reason": f"motivo {number}"},
                gate="reviewer",
                requested_for_id=User.objects.get(username="ana").pk,
                reason="",
                preview={"summary": f"Reembolso {number}"},
                binding_hash="0" * 64,
                reference={"run": str(uuid7()), "conversation": str(uuid7())},
                risk="destructive",
                rule="tool",
            ).pk
            for number in (1, 2)
        ]
    return made[::-1]


def state_of(house: Tenant, request_id: UUID) -> str:
    with tenant_scope(house.pk):
        return str(ApprovalRequest.objects.get(pk=request_id).state)


def test_inbox_under_the_keyboard(house: Tenant, scripted: Stack, rita: Window) -> None:
    newest, oldest = elsewhere(lambda: two_requests(house))
    rita.sign_in("rita", to=INBOX)
    keys = rita.page.keyboard
    expect(rita.page.locator(".approvals-live")).to_have_text("Ao vivo")

    def is_open(request_id: UUID) -> None:
        expect(rita.page.locator(f'[data-open-approval="{request_id}"]')).to_be_visible()

    keys.press("j")
    is_open(newest)
    keys.press("j")
    is_open(oldest)
    keys.press("j")  # the last one stays
    is_open(oldest)
    keys.press("k")
    is_open(newest)

    keys.press("a")
    expect(rita.page.locator("#approve-button")).to_be_focused()
    keys.press("d")
    expect(rita.page.locator("#deny-reason")).to_be_focused()
    keys.type("já usado?")  # letters are letters where one writes
    expect(rita.page.locator("#deny-reason")).to_have_value("já usado?")
    is_open(newest)
    keys.press("Tab")
    keys.press("Enter")
    expect(rita.page.locator(".approval-closed")).to_be_visible()
    assert elsewhere(lambda: state_of(house, newest)) == "denied"
    assert elsewhere(lambda: state_of(house, oldest)) == "pending"

    rita.page.get_by_role("button", name="Atalhos do teclado").click()
    dialog = rita.page.locator("#approval-keys")
    expect(dialog).to_be_visible()
    assert rita.violations() == []
    dialog.get_by_label("Usar estes atalhos").uncheck()
    keys.press("Escape")
    expect(dialog).to_be_hidden()
    rita.go(INBOX)
    expect(rita.page.locator(".approvals-live")).to_have_text("Ao vivo")
    keys.press("j")
    keys.press("?")
    expect(dialog).to_be_visible()
    expect(rita.page.locator("[data-open-approval]")).to_have_count(0)

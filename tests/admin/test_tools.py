"""The page of the tools: seen by those who hold a tenant, switched by those who configure it."""

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME

from tests.admin.conftest import console, page
from tests.support.cast import Cast
from tools import governance
from tools.models import Tool, ToolSwitch

PATH = "tools/tool/"


def test_a_tenant_admin_switches_a_tool_in_their_own_tenant(arena: Cast, teatro: Cast) -> None:
    tool = Tool.objects.get(name="send_email")
    client = console("ada")
    chosen = {"action": "switch_off", ACTION_CHECKBOX_NAME: str(tool.pk)}
    asked = client.post(f"/admin/{PATH}", chosen).content.decode()
    assert "Arena" in asked
    assert "Teatro" not in asked
    both = [str(arena.tenant.pk), str(teatro.tenant.pk)]
    client.post(f"/admin/{PATH}", chosen | {"reason": "textos errados", "tenants": both})
    with arena.scope():
        assert ToolSwitch.objects.get(tool="send_email").is_off
    with teatro.scope():
        assert not ToolSwitch.objects.filter(tool="send_email").exists()
    shown = page(client, PATH).content.decode()
    assert "Arena" in shown
    assert "textos errados" in page(client, f"{PATH}{tool.pk}/change/").content.decode()
    other = page(console("tina"), f"{PATH}{tool.pk}/change/").content.decode()
    assert "textos errados" not in other
    assert "Arena" not in other


def test_the_operator_switches_where_they_choose_and_on_again(arena: Cast, teatro: Cast) -> None:
    tool = Tool.objects.get(name="send_email")
    client = console("root")
    chosen = {ACTION_CHECKBOX_NAME: str(tool.pk), "tenants": [str(teatro.tenant.pk)]}
    for action, is_off in (("switch_off", True), ("switch_on", False)):
        client.post(f"/admin/{PATH}", chosen | {"action": action, "reason": "um ataque"})
        with teatro.scope():
            assert ToolSwitch.objects.get(tool="send_email").is_off is is_off
    with arena.scope():
        assert not ToolSwitch.objects.filter(tool="send_email").exists()


def test_a_reason_that_is_too_short_switches_nothing(arena: Cast, teatro: Cast) -> None:
    tool = Tool.objects.get(name="send_email")
    form = {ACTION_CHECKBOX_NAME: str(tool.pk), "tenants": [str(arena.tenant.pk)]}
    reply = console("ada").post(
        f"/admin/{PATH}", form | {"action": "switch_off", "reason": "x"}, follow=True
    )
    assert str(governance.REASON_MAX) in reply.content.decode()
    with arena.scope():
        assert not ToolSwitch.objects.filter(tool="send_email").exists()

"""The console shows requests and decisions, and lets nobody write them."""

from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.test import Client
from guardian.shortcuts import assign_perm

from approvals import services
from boxoffice.tenancy.models import User
from boxoffice.tenancy.scope import tenant_scope
from tests.approvals.conftest import Cast

MODELS = ["approvals/approvalrequest", "approvals/decision", "audit/auditrecord", "audit/auditseal"]


@pytest.fixture
def consoles(cast: Cast) -> tuple[Client, Client]:
    """The operator's console, and that of a tenant admin of teatro."""
    root = User.objects.create_superuser("root", "root@example.com")
    tina = User.objects.create_user("tina", "tina@example.com", is_staff=True)
    assign_perm("configure", tina, cast.teatro)
    tina.user_permissions.set(
        Permission.objects.filter(
            codename__startswith="view_", content_type__app_label__in=["approvals", "audit"]
        )
    )
    pair = (Client(), Client())
    for client, user in zip(pair, (root, tina), strict=True):
        client.force_login(user)
    return pair


def test_pages_are_read_only_and_a_tenants_own(
    cast: Cast, ask: Any, consoles: tuple[Client, Client]
) -> None:
    request = ask()
    with tenant_scope(cast.arena.pk):
        services.approve(request_id=request.pk, principal=cast.principal("rita"))
    operator, elsewhere = consoles
    for name in MODELS:
        assert operator.get(f"/admin/{name}/").status_code == 200
        assert operator.get(f"/admin/{name}/add/").status_code == 403
        assert elsewhere.get(f"/admin/{name}/").status_code == 200
    path = f"/admin/approvals/approvalrequest/{request.pk}/change/"
    page = operator.get(path)
    assert page.status_code == 200
    assert 'name="_save"' not in page.content.decode()
    assert operator.post(path, {"state": "denied"}).status_code == 403
    assert operator.post(path.replace("change", "delete")).status_code == 403
    assert "refund_order" in operator.get("/admin/approvals/approvalrequest/").content.decode()
    assert (
        str(request.pk) not in elsewhere.get("/admin/approvals/approvalrequest/").content.decode()
    )
    assert elsewhere.get(path).status_code == 404  # as for a request that does not exist

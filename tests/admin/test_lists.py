"""Every list of the console, by everybody who may come there."""

from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin import ModelAdmin
from django.db import connection
from django.test.utils import CaptureQueriesContext
from unfold.admin import ModelAdmin as UnfoldAdmin

from boxoffice.tenancy.models import TenantModel, User
from boxoffice.tenancy.scope import operator_scope, tenant_scope
from tests.admin.conftest import console, more, page
from tests.support.cast import Cast

OURS = {"tenancy", "ticketing", "tools", "agents", "approvals", "billing", "audit"}
OURS |= {"acquirer"}
OPERATOR_ONLY = {
    "auth.group",
    "admin.logentry",
    "tenancy.user",
    "tenancy.tenantuserpermission",
    "tenancy.tenantgrouppermission",
    "billing.modelprice",
    "acquirer.movement",
}
# What people edit; everything else of a tenant is written by the machine.
EDITED = {
    "tenancy.tier",
    "tenancy.membership",
    "ticketing.venue",
    "ticketing.section",
    "ticketing.seat",
    "ticketing.event",
    "ticketing.price",
    "approvals.policyversion",
}
# Edited, and never removed.
KEPT = {"approvals.policyversion"}
# Of these each house of the tests has its fixed number.
HOUSE = {f"ticketing.{name}" for name in ("venue", "section", "seat", "event", "price")}
ADMINS: list[ModelAdmin] = sorted(
    admin.site._registry.values(), key=lambda one: one.opts.label_lower
)
OWNED = [one for one in ADMINS if issubclass(one.model, TenantModel)]


def path_of(one: ModelAdmin) -> str:
    return f"{one.opts.app_label}/{one.opts.model_name}/"


def test_every_model_of_ours_has_its_page_in_the_console() -> None:
    models = {model for model in apps.get_models() if model._meta.app_label in OURS}
    assert models - set(admin.site._registry) == set()
    assert all(isinstance(one, UnfoldAdmin) for one in ADMINS)


def test_a_list_is_for_those_who_hold_the_tenant(teatro: Cast, subtests: pytest.Subtests) -> None:
    for one in ADMINS:
        with subtests.test(one.opts.label_lower):
            for name in ("ana", "rita"):
                assert page(console(name), path_of(one)).status_code == 302, name
            assert page(console("root"), path_of(one)).status_code == 200
            wanted = 403 if one.opts.label_lower in OPERATOR_ONLY else 200
            for name in ("ada", "tina"):
                assert page(console(name), path_of(one)).status_code == wanted, name


def test_a_list_shows_only_the_tenants_one_holds(
    arena: Cast, teatro: Cast, subtests: pytest.Subtests
) -> None:
    for one in OWNED:
        with subtests.test(one.opts.label_lower):
            ids = {}
            for cast in (arena, teatro):
                with cast.scope():
                    ids[cast.tenant.slug] = set(
                        one.model._default_manager.values_list("pk", flat=True)
                    )
                assert ids[cast.tenant.slug]
            for name, seen in (
                ("ada", ids["arena"]),
                ("tina", ids["teatro"]),
                ("root", ids["arena"] | ids["teatro"]),
            ):
                reply = page(console(name), path_of(one), all="")
                assert {row.pk for row in reply.context["cl"].result_list} == seen
                text = reply.content.decode()
                assert ("Arena" in text) == (name != "tina")
                assert ("Teatro" in text) == (name != "ada")


def test_a_row_of_another_tenant_does_not_exist(
    arena: Cast, teatro: Cast, subtests: pytest.Subtests
) -> None:
    for one in OWNED:
        with subtests.test(one.opts.label_lower):
            with arena.scope():
                row = one.model._default_manager.first()
            client = console("tina")
            for verb in ("change", "history", "delete"):
                reply = page(client, f"{path_of(one)}{row.pk}/{verb}/")
                # What nobody may remove is refused before it is looked up.
                assert reply.status_code in ({403, 404} if verb == "delete" else {404}), verb
            assert page(client, f"{path_of(one)}{uuid4()}/change/").status_code == 404
            mine = console("ada")
            for verb in ("change", "history"):
                assert page(mine, f"{path_of(one)}{row.pk}/{verb}/").status_code == 200, verb


def test_a_list_runs_no_query_per_row(arena: Cast, teatro: Cast, subtests: pytest.Subtests) -> None:
    client = console("root")

    def measured(one: ModelAdmin) -> tuple[int, list[str]]:
        page(client, path_of(one))  # content types and the like are read once
        with CaptureQueriesContext(connection) as queries:
            reply = page(client, path_of(one))
        return len(reply.context["cl"].result_list), [query["sql"] for query in queries]

    before = {one: measured(one) for one in OWNED}
    for _ in range(3):
        more(arena)
    for one, (rows, few) in before.items():
        with subtests.test(one.opts.label_lower):
            more_rows, many = measured(one)
            assert more_rows > rows or one.opts.label_lower in HOUSE
            assert len(many) == len(few), many


def test_a_list_can_be_searched_for_anything(teatro: Cast, subtests: pytest.Subtests) -> None:
    for one in OWNED:
        with subtests.test(one.opts.label_lower):
            assert one.search_fields
            client = console("root")
            for text in ("oi", "R$ 1,50", str(uuid4()), "%", "'", "5"):
                assert page(client, path_of(one), q=text).status_code == 200, text


def test_a_row_is_found_by_its_id_where_ids_are_looked_for(
    arena: Cast, teatro: Cast, subtests: pytest.Subtests
) -> None:
    for one in OWNED:
        with subtests.test(one.opts.label_lower):
            if "=id" not in one.search_fields:
                assert not any(name.endswith("=id") for name in one.search_fields)
                continue
            with arena.scope():
                row = one.model._default_manager.first()
            reply = page(console("root"), path_of(one), q=str(row.pk))
            assert [found.pk for found in reply.context["cl"].result_list] == [row.pk]


def test_nobody_edits_what_machines_write(
    rf: Any, arena: Cast, teatro: Cast, subtests: pytest.Subtests
) -> None:
    for one in OWNED:
        with subtests.test(one.opts.label_lower):
            is_edited = one.opts.label_lower in EDITED
            with operator_scope("test"):
                request = rf.get("/admin/")
                request.user = User.objects.get(username="root")
                rights = {
                    one.has_add_permission(request),
                    one.has_change_permission(request),
                    one.has_delete_permission(request) or one.opts.label_lower in KEPT,
                }
                assert one.has_view_permission(request)
            assert rights == {is_edited}
            with tenant_scope(arena.tenant.pk):
                request.user = User.objects.get(username="ada")
                assert one.has_add_permission(request) == is_edited
                assert one.has_change_permission(request) == is_edited
                assert not one.has_delete_permission(request)
            reply = page(console("root"), f"{path_of(one)}add/")
            assert reply.status_code == (200 if is_edited else 403)


def test_the_first_page_lists_what_one_may_see(teatro: Cast) -> None:
    for name in ("ada", "root"):
        reply = page(console(name), "")
        assert reply.status_code == 200
        shown = {
            f"{app['app_label']}.{model['object_name'].lower()}"
            for app in reply.context["available_apps"]
            for model in app["models"]
        }
        registered = {one.opts.label_lower for one in ADMINS}
        assert shown == (registered if name == "root" else registered - OPERATOR_ONLY)


def test_the_console_has_its_own_content_policy_and_the_site_keeps_its(teatro: Cast) -> None:
    client = console("root")
    assert "unsafe-eval" in page(client, "")["Content-Security-Policy"]
    assert "unsafe" not in client.get("/")["Content-Security-Policy"]

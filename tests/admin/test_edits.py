"""What people change in the console, and what they cannot make themselves."""

from typing import Any

from django.test import Client
from guardian.shortcuts import assign_perm, get_perms, remove_perm

from boxoffice.billing.models import ModelPrice
from boxoffice.billing.selectors import prices_forget, unit_prices
from boxoffice.tenancy.models import ApiToken, Membership, Tenant, Tier, User
from boxoffice.tenancy.principals import InvalidToken, token_user
from boxoffice.tenancy.scope import tenant_scope
from boxoffice.ticketing.models import Event, Price, Section, SupportTicket, Venue
from tests.admin.conftest import console, page
from tests.support.cast import Cast

REVIEWER = {"review_actions", "answer_fans"}
ADMIN = REVIEWER | {"configure", "view_costs", "replay_runs", "export_calls"}


def form_of(client: Client, path: str) -> dict[str, Any]:
    """The values that a browser would send back for a page of the console."""
    reply = page(client, path)
    assert reply.status_code == 200
    values = dict(reply.context["adminform"].form.initial)
    for formset in reply.context["inline_admin_formsets"]:
        forms = formset.formset
        values |= {
            f"{forms.prefix}-TOTAL_FORMS": forms.total_form_count(),
            f"{forms.prefix}-INITIAL_FORMS": forms.initial_form_count(),
        }
        for form in forms.forms:
            values |= {form.add_prefix(name): value for name, value in form.initial.items()}
            if form.instance.pk and not form.instance._state.adding:
                values[form.add_prefix("id")] = form.instance.pk
    return {name: value for name, value in values.items() if value not in (None, [])}


def send(client: Client, path: str, **data: Any) -> Any:
    return client.post(f"/admin/{path}", data)


def errors_of(reply: Any) -> str:
    assert reply.status_code == 200, "the form was taken"
    return str(reply.context["errors"])


def a_tier(tenant: Tenant, **changes: Any) -> dict[str, Any]:
    fields = {
        "tenant": tenant.pk,
        "slug": "gold",
        "name": "Gold",
        "model_alias": "claude-haiku-4-5",
        "max_subagents": 1,
        "tools": ["search_events", "hold_seats"],
        "rate_per_min": 10,
        "max_tokens_per_request": 4000,
        "max_steps": 12,
        "max_wall_seconds": 120,
        "max_run_cost_micros": 1,
        "max_day_cost_micros": 1,
    }
    return fields | changes


def test_a_tenant_admin_makes_a_tier(arena: Cast, teatro: Cast) -> None:
    assert send(console("ada"), "tenancy/tier/add/", **a_tier(arena.tenant)).status_code == 302
    with arena.scope():
        tier = Tier.objects.get(slug="gold")
    assert tier.tenant == arena.tenant
    assert tier.tools == ["search_events", "hold_seats"]


def test_nobody_makes_anything_for_a_tenant_that_they_do_not_hold(
    arena: Cast, teatro: Cast
) -> None:
    reply = send(console("tina"), "tenancy/tier/add/", **a_tier(arena.tenant))
    assert "tenant" in reply.context["adminform"].form.errors
    with arena.scope():
        assert not Tier.objects.filter(slug="gold").exists()


def test_a_row_never_moves_to_another_tenant(arena: Cast, teatro: Cast) -> None:
    with arena.scope():
        tier = Tier.objects.get(slug="free")
    changes = a_tier(teatro.tenant, slug="free", name="Moved")
    for name in ("ada", "root"):
        send(console(name), f"tenancy/tier/{tier.pk}/change/", **changes)
        with arena.scope():
            assert Tier.objects.get(slug="free").name == "Moved"
    assert send(console("tina"), f"tenancy/tier/{tier.pk}/change/", **changes).status_code == 404


def test_the_rights_of_a_member_follow_the_role(arena: Cast, teatro: Cast) -> None:
    fabio, client = arena.user("fabio"), console("ada")
    assign_perm("tenancy.answer_fans", fabio, teatro.tenant)
    with arena.scope():
        member = Membership.objects.get(user=fabio)
    path = f"tenancy/membership/{member.pk}/change/"
    for role, rights, enters in (
        ("reviewer", REVIEWER, False),
        ("admin", ADMIN, True),
        ("fan", set(), False),
    ):
        fields = {"tier": member.tier_id, "role": role, "is_active": "on"}
        assert send(client, path, **fields).status_code == 302
        assert set(get_perms(User.objects.get(pk=fabio.pk), arena.tenant)) == rights
        assert arena.user("fabio").is_staff == enters
    assert set(get_perms(arena.user("fabio"), teatro.tenant)) == {"answer_fans"}


def test_a_member_who_is_put_out_loses_the_rights(arena: Cast, teatro: Cast) -> None:
    client = console("root")
    with arena.scope():
        member = Membership.objects.get(user__username="rita")
    fields = {"tier": member.tier_id, "role": "reviewer"}
    assert send(client, f"tenancy/membership/{member.pk}/change/", **fields).status_code == 302
    assert get_perms(arena.user("rita"), arena.tenant) == []
    with arena.scope():
        rosa = Membership.objects.get(user__username="rosa")
    send(client, f"tenancy/membership/{rosa.pk}/delete/", post="yes")
    assert get_perms(arena.user("rosa"), arena.tenant) == []
    with arena.scope():
        assert not Membership.objects.filter(pk=rosa.pk).exists()


def a_member(cast: Cast, username: str, **changes: Any) -> dict[str, Any]:
    with cast.scope():
        tier = Tier.objects.get(slug="pro")
    fields = {"tenant": cast.tenant.pk, "tier": tier.pk, "role": "fan", "is_active": "on"}
    return fields | {"username": username} | changes


def test_a_new_member_is_named(arena: Cast, teatro: Cast) -> None:
    User.objects.create_user("nova")
    path, client = "tenancy/membership/add/", console("ada")
    assert "select" not in page(client, path).context["adminform"].form["username"].as_widget()
    assert "username" in errors_form(send(client, path, **a_member(arena, "nobody")))
    assert "username" in errors_form(send(client, path, **a_member(arena, "ana")))
    assert send(client, path, **a_member(arena, "nova", role="reviewer")).status_code == 302
    assert set(get_perms(User.objects.get(username="nova"), arena.tenant)) == REVIEWER
    with arena.scope():
        assert Membership.objects.get(user__username="nova").role == "reviewer"


def errors_form(reply: Any) -> dict[str, Any]:
    assert reply.status_code == 200, "the form was taken"
    return dict(reply.context["adminform"].form.errors)


def test_a_member_has_a_tier_of_their_own_tenant(arena: Cast, teatro: Cast) -> None:
    User.objects.create_user("nova")
    with teatro.scope():
        foreign = Tier.objects.get(slug="pro").pk
    for name in ("ada", "root"):  # to ada it does not exist; root is told
        reply = send(
            console(name), "tenancy/membership/add/", **a_member(arena, "nova", tier=foreign)
        )
        assert "tier" in errors_form(reply), name


def test_a_tenant_admin_grants_nothing_beyond_their_tenant(arena: Cast, teatro: Cast) -> None:
    client, ada = console("ada"), arena.user("ada")
    for path in (
        f"tenancy/user/{ada.pk}/change/",
        "tenancy/user/add/",
        "auth/group/add/",
        "tenancy/tenantuserpermission/add/",
        f"tenancy/tenant/{arena.tenant.pk}/permissions/",
        f"tenancy/tenant/{arena.tenant.pk}/permissions/user-manage/{ada.pk}/",
        f"tenancy/tenant/{teatro.tenant.pk}/permissions/",
        f"tenancy/tenant/{teatro.tenant.pk}/permissions/user-manage/{ada.pk}/",
    ):
        assert page(client, path).status_code == 403, path
        assert send(client, path, is_superuser="on", permissions="configure").status_code == 403
    assert page(client, f"tenancy/tenant/{teatro.tenant.pk}/change/").status_code == 404
    assert not arena.user("ada").is_superuser
    assert get_perms(arena.user("ada"), teatro.tenant) == []


def test_the_operator_grants_rights_one_by_one(arena: Cast, teatro: Cast) -> None:
    client, ana = console("root"), arena.user("ana")
    path = f"tenancy/tenant/{arena.tenant.pk}/permissions/"
    assert page(client, path).status_code == 200
    assert page(client, f"{path}user-manage/{ana.pk}/").status_code == 200
    send(client, f"{path}user-manage/{ana.pk}/", permissions=["view_costs"])
    assert get_perms(arena.user("ana"), arena.tenant) == ["view_costs"]


def test_a_tenant_admin_names_the_tenant_and_does_not_move_it(arena: Cast, teatro: Cast) -> None:
    path = f"tenancy/tenant/{arena.tenant.pk}/change/"
    fields = {
        "name": "Arena Nova",
        "language": "en",
        "time_zone": "America/Manaus",
        "slug": "teatro2",
        "host": "evil.example.com",
        "currency": "USD",
        "is_active": "",
        "share": "1000",
        "max_concurrent_runs": "10000",
    }
    assert send(console("ada"), path, **fields).status_code == 302
    tenant = Tenant.objects.get(pk=arena.tenant.pk)
    assert (tenant.share, tenant.max_concurrent_runs) == (10, 100)
    assert (tenant.name, tenant.language) == ("Arena Nova", "en")
    assert tenant.time_zone == "America/Manaus"
    assert (tenant.slug, tenant.host, tenant.currency, tenant.is_active) == (
        "arena",
        None,
        "BRL",
        True,
    )
    reply = send(console("ada"), path, **(fields | {"time_zone": "Mars/Olympus"}))
    assert "time_zone" in errors_form(reply)


def test_a_new_tenant_lets_visitors_in(teatro: Cast) -> None:
    fields = {
        "name": "Clube",
        "slug": "clube",
        "language": "pt-br",
        "time_zone": "America/Sao_Paulo",
        "currency": "BRL",
        "is_active": "on",
        "share": "20",
        "max_concurrent_runs": "40",
    }
    for wrong in ({"share": "0"}, {"max_concurrent_runs": "0"}, {"share": "many"}):
        reply = send(console("root"), "tenancy/tenant/add/", **(fields | wrong))
        assert next(iter(wrong)) in errors_form(reply)
    assert send(console("root"), "tenancy/tenant/add/", **fields).status_code == 302
    tenant = Tenant.objects.get(slug="clube")
    assert (tenant.share, tenant.max_concurrent_runs) == (20, 40)
    assert Client().get("/t/clube/api/v1/conversations/").status_code == 200
    assert send(console("ada"), "tenancy/tenant/add/", **fields).status_code == 403


def test_a_revoked_token_opens_nothing(arena: Cast, teatro: Cast) -> None:
    plain = arena.token("ana")
    assert token_user(tenant=arena.tenant, plain=plain) == arena.user("ana")
    with arena.scope():
        ids = [str(token.pk) for token in ApiToken.objects.all()]
    fields = {"action": "revoke", "_selected_action": ids}
    assert send(console("tina"), "tenancy/apitoken/", **fields).status_code in {200, 302}
    assert token_user(tenant=arena.tenant, plain=plain) == arena.user("ana")
    assert send(console("ada"), "tenancy/apitoken/", **fields).status_code == 302
    try:
        token_user(tenant=arena.tenant, plain=plain)
    except InvalidToken:
        return
    raise AssertionError("the token still works")


def test_a_token_is_never_shown(arena: Cast, teatro: Cast) -> None:
    with arena.scope():
        token = ApiToken.objects.first()
    client = console("root")
    for path in ("tenancy/apitoken/", f"tenancy/apitoken/{token.pk}/change/"):
        assert token.digest not in page(client, path).content.decode()


def test_tickets_are_closed(arena: Cast, teatro: Cast) -> None:
    with arena.scope():
        ticket = SupportTicket.objects.get()
    fields = {"action": "close", "_selected_action": [str(ticket.pk)]}
    for _ in range(2):
        assert send(console("ada"), "ticketing/supportticket/", **fields).status_code == 302
        with arena.scope():
            assert SupportTicket.objects.get().status == "closed"


def test_prices_and_sections_are_edited_where_they_belong(arena: Cast, teatro: Cast) -> None:
    client = console("root")  # whose scope holds every tenant: the outer row says which
    path = f"ticketing/event/{arena.seats.event.pk}/change/"
    values = form_of(client, path)
    starts_at = values.pop("starts_at")
    values |= {"starts_at_0": f"{starts_at:%d/%m/%Y}", "starts_at_1": f"{starts_at:%H:%M}"}
    values |= {"prices-0-amount_minor": 12_345, "sales_open": ""}
    assert send(client, path, **values).status_code == 302
    with arena.scope():
        assert Price.objects.filter(amount_minor=12_345).count() == 1
        assert not Event.objects.get().sales_open

    with arena.scope():
        venue = Venue.objects.get()
    path = f"ticketing/venue/{venue.pk}/change/"
    values = form_of(client, path)
    number = values["sections-TOTAL_FORMS"]
    values |= {
        "sections-TOTAL_FORMS": number + 1,
        f"sections-{number}-name": "Camarote",
        f"sections-{number}-colour": "#ff0000",
        f"sections-{number}-position": 9,
    }
    assert send(client, path, **values).status_code == 302
    with arena.scope():
        assert Section.objects.get(name="Camarote").tenant == arena.tenant


def test_costs_are_for_those_who_may_see_them(arena: Cast, teatro: Cast) -> None:
    reply = page(console("ada"), "billing/usageentry/")
    assert len(reply.context["cl"].result_list) == 1
    remove_perm("tenancy.view_costs", arena.user("ada"), arena.tenant)
    reply = page(console("ada"), "billing/usageentry/")
    assert len(reply.context["cl"].result_list) == 0


def test_a_price_of_a_model_counts_at_once(teatro: Cast) -> None:
    before = unit_prices(model="claude-haiku-4-5")
    fields = {
        "alias_prefix": "claude-haiku-4-5",
        "input_micros": before.input + 1,
        "output_micros": 1,
        "cache_read_micros": 1,
        "cache_write_micros": 1,
        "valid_from_0": "02/01/2026",
        "valid_from_1": "00:00",
    }
    assert send(console("root"), "billing/modelprice/add/", **fields).status_code == 302
    assert unit_prices(model="claude-haiku-4-5").input == before.input + 1
    ModelPrice.objects.filter(output_micros=1).delete()
    prices_forget()


def test_who_lost_the_tenant_lost_the_console(arena: Cast, teatro: Cast) -> None:
    client = console("ada")
    assert page(client, "tenancy/tier/").status_code == 200
    remove_perm("tenancy.configure", arena.user("ada"), arena.tenant)
    assert page(client, "tenancy/tier/").status_code == 403
    assert page(client, "").context["available_apps"] == []
    with tenant_scope(arena.tenant.pk):
        tier = Tier.objects.get(slug="free")
    assert page(client, f"tenancy/tier/{tier.pk}/change/").status_code in {403, 404}

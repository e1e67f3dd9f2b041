"""The demo: seeded, seeded again, and seeded weeks later."""

import json
from datetime import datetime, time, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import Count
from django.test import TestCase, override_settings

from boxoffice.common import clock
from boxoffice.tenancy.models import Membership, Tenant, Tier, User
from boxoffice.tenancy.principals import principal_for
from boxoffice.tenancy.scope import operator_scope, tenant_scope
from boxoffice.ticketing.models import Event, Order, Payment, Seat, SeatClaim
from boxoffice.ticketing.selectors.events import events_search, tenant_zone
from boxoffice.ticketing.selectors.seats import seat_options

SLUGS = ("arena", "teatro")
ADMIN = {"configure", "view_costs", "review_actions", "answer_fans", "replay_runs", "export_calls"}
REVIEWER = {"review_actions", "answer_fans"}
CAST: dict[str, tuple[str, str, set[str]]] = {
    "ana": ("arena", "fan", set()),
    "fabio": ("arena", "fan", set()),
    "rita": ("arena", "reviewer", REVIEWER),
    "ada": ("arena", "admin", ADMIN),
    "teo": ("teatro", "fan", set()),
    "rui": ("teatro", "reviewer", REVIEWER),
    "tina": ("teatro", "admin", ADMIN),
}


def seed(*options: str) -> str:
    out = StringIO()
    call_command("seed_demo", *options, stdout=out)
    return out.getvalue()


def counts() -> dict[str, int]:
    models = (Tenant, Tier, User, Membership, Seat, Event, Order, Payment, SeatClaim)
    with operator_scope("test"):
        return {model.__name__: model.objects.count() for model in models}


def test_outside_debug_it_wants_a_yes(db: None, settings: Any) -> None:
    settings.DEBUG = False
    with pytest.raises(CommandError, match="--yes"):
        seed()
    assert Tenant.objects.count() == 0
    assert seed("--yes", "--quiet") == ""
    assert Tenant.objects.count() == 2


@override_settings(DEBUG=True)
class SeededDemo(TestCase):
    """Seeded once; each test sees it fresh."""

    @classmethod
    def setUpTestData(cls) -> None:
        """Seed."""
        seed("--quiet")

    def test_a_second_run_changes_nothing(self) -> None:
        before = counts()
        report = json.loads(seed("--json"))
        assert counts() == before
        assert [line["new_events"] for line in report["tenants"]] == [0, 0]
        assert all(line["events"] >= 14 for line in report["tenants"])

    def test_weeks_later_only_new_days_are_added(self) -> None:
        with operator_scope("test"):
            before = set(Event.objects.values_list("pk", flat=True))
        later = clock.now() + timedelta(days=21)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(clock, "now", lambda: later)
            report = json.loads(seed("--json"))
        assert all(line["new_events"] > 0 and line["events"] >= 14 for line in report["tenants"])
        with operator_scope("test"):
            assert before < set(Event.objects.values_list("pk", flat=True))

    def test_the_demo_is_worth_looking_at(self) -> None:
        for slug in SLUGS:
            with tenant_scope(Tenant.objects.get(slug=slug).pk):
                _check_sales()
                _check_next_saturday()
                seats = list(Seat.objects.values_list("x", "y"))
                assert len(seats) == len(set(seats)) >= 200

    def test_people_sign_in_and_hold_what_their_role_holds(self) -> None:
        for name, (slug, role, rights) in CAST.items():
            user = User.objects.get(username=name)
            assert user.is_staff == (role == "admin")
            principal = principal_for(tenant=Tenant.objects.get(slug=slug), user=user)
            assert (principal.role, set(principal.permissions)) == (role, rights)
        # The others share the hash; see the cast.
        ana = User.objects.get(username="ana")
        assert ana.check_password("demo")
        hashes = User.objects.filter(username__in=[*CAST, "root"]).values_list("password")
        assert set(hashes) == {(ana.password,)}

    def test_a_tenant_admin_edits_the_house_and_looks_at_the_rest(self) -> None:
        ada = User.objects.get(username="ada")
        assert ada.has_perm("ticketing.change_event")
        assert ada.has_perm("ticketing.view_order")
        assert not ada.has_perm("ticketing.change_order")
        assert not ada.has_perm("tenancy.configure")
        root = User.objects.get(username="root")
        assert root.is_superuser
        assert root.is_staff

    def test_each_tier_gets_what_its_fans_need_and_visitors_only_read(self) -> None:
        with tenant_scope(Tenant.objects.get(slug="arena").pk):
            tiers = {tier.slug: tier for tier in Tier.objects.all()}
        assert set(tiers["anonymous"].tools) == {"search_events", "search_seats"}
        assert tiers["anonymous"].is_anonymous
        assert "hold_seats" in tiers["free"].tools
        assert set(tiers["free"].tools) < set(tiers["pro"].tools) < set(tiers["enterprise"].tools)
        paid = [tiers[slug] for slug in ("free", "pro", "enterprise")]
        assert [tier.can_approve_human for tier in paid] == [False, True, True]
        assert [tier.rate_per_min for tier in paid] == [10, 60, 600]


def _check_sales() -> None:
    """15 to 35 % of each house is sold, paid for by fans of the demo."""
    total = Seat.objects.count()
    sold = Event.objects.annotate(n=Count("claims")).values_list("n", flat=True)
    assert all(0.14 * total <= n <= 0.36 * total for n in sold)
    assert set(Order.objects.values_list("status", flat=True)) == {"paid"}
    assert set(Order.objects.values_list("hold__status", flat=True)) == {"converted"}


def _check_next_saturday() -> None:
    """On the next Saturday two neighbours can be had below R$ 300."""
    zone = tenant_zone()
    today = clock.now().astimezone(zone).date()
    saturday = today + timedelta(days=(5 - today.weekday()) % 7)
    if datetime.combine(saturday, time(15), zone) <= clock.now() + timedelta(hours=3):
        saturday += timedelta(days=7)
    events = list(events_search(date_from=saturday, date_to=saturday, max_price_minor=30_000))
    assert events
    for event in events:
        options = seat_options(event, quantity=2, max_price_minor=30_000)
        assert options
        assert options[0].total_minor <= 60_000

"""The ledger of model calls: exact, append-only, per fan and day."""

from datetime import UTC, datetime
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, transaction
from hypothesis import given
from hypothesis import strategies as st

from boxoffice.billing.exceptions import PriceMissing
from boxoffice.billing.models import ModelPrice, UsageEntry
from boxoffice.billing.selectors import UnitPrices, prices_forget, unit_prices
from boxoffice.billing.services import spent_today_micros, usage_record
from boxoffice.common import clock
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.scope import ScopeMissing, tenant_scope

SONNET = "claude-sonnet-4-7"


def entry(user: User | None, *, model: str = SONNET, run_id: UUID | None = None) -> UsageEntry:
    return usage_record(
        user_id=user.pk if user else None,
        run_id=run_id or uuid4(),
        model=model,
        input_tokens=1000,
        output_tokens=200,
        cache_read_tokens=10_000,
        cache_write_tokens=400,
    )


def test_a_call_costs_what_the_price_list_says(scope: Tenant, ana: User) -> None:
    made = entry(ana)
    # 1000 x 3 + 200 x 15 + 10000 x 0.30 + 400 x 3.75 dollars a million
    assert made.cost_micros == 3000 + 3000 + 3000 + 1500
    assert made.prices == {
        "input": 3_000_000,
        "output": 15_000_000,
        "cache_read": 300_000,
        "cache_write": 3_750_000,
        "matched": SONNET,
    }
    assert made.tenant_id == scope.pk


def test_a_dated_name_of_a_model_has_its_price(scope: Tenant, ana: User) -> None:
    assert entry(ana, model=f"{SONNET}-20261001").cost_micros == entry(ana).cost_micros


def test_an_unknown_model_is_charged_as_the_dearest(scope: Tenant) -> None:
    assert unit_prices(model="something-else").matched == "claude-opus-4-7"


def test_without_any_price_nothing_can_be_recorded(scope: Tenant, ana: User) -> None:
    ModelPrice.objects.all().delete()
    prices_forget()
    with pytest.raises(PriceMissing):
        entry(ana)
    assert UsageEntry.objects.count() == 0


def test_a_new_price_counts_from_its_day_on_and_never_back(scope: Tenant, ana: User) -> None:
    before = entry(ana)
    ModelPrice.objects.create(
        alias_prefix=SONNET,
        input_micros=1,
        output_micros=1,
        cache_read_micros=1,
        cache_write_micros=1,
        valid_from=clock.now(),
    )
    ModelPrice.objects.create(
        alias_prefix=SONNET,
        input_micros=9,
        output_micros=9,
        cache_read_micros=9,
        cache_write_micros=9,
        valid_from=datetime(2100, 1, 1, tzinfo=UTC),
    )
    assert entry(ana).cost_micros == before.cost_micros  # the table is read once a minute
    prices_forget()
    assert entry(ana).cost_micros == 1
    before.refresh_from_db()
    assert before.cost_micros == 10_500


def test_the_ledger_is_never_changed(scope: Tenant, ana: User) -> None:
    made = entry(ana)
    for change in (
        lambda: UsageEntry.objects.filter(pk=made.pk).update(cost_micros=0),
        lambda: UsageEntry.objects.filter(pk=made.pk).delete(),
    ):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            change()
    assert UsageEntry.objects.get(pk=made.pk).cost_micros == 10_500


def test_what_a_fan_spent_today_is_theirs_alone(scope: Tenant, ana: User, fabio: User) -> None:
    entry(ana)
    entry(ana)
    entry(fabio)
    entry(None)
    assert spent_today_micros(user_id=ana.pk) == 21_000
    assert spent_today_micros(user_id=fabio.pk) == 10_500
    assert spent_today_micros(user_id=None) == 10_500


def test_the_day_begins_at_midnight_of_the_tenant(
    scope: Tenant, ana: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 02:30 UTC is half past eleven the evening before in São Paulo.
    evening = datetime(2030, 5, 2, 2, 30, tzinfo=UTC)
    after_midnight = datetime(2030, 5, 2, 3, 30, tzinfo=UTC)
    for now in ("django.utils.timezone.now", "boxoffice.billing.selectors.now"):
        monkeypatch.setattr(now, lambda: evening)
    entry(ana)
    assert spent_today_micros(user_id=ana.pk) == 10_500
    monkeypatch.setattr("boxoffice.billing.selectors.now", lambda: after_midnight)
    assert spent_today_micros(user_id=ana.pk) == 0


def test_another_tenant_sees_nothing_of_it(tenant: Tenant, ana: User) -> None:
    other = Tenant.objects.create(slug="teatro", name="Teatro")
    with tenant_scope(tenant.pk):
        entry(ana)
    with tenant_scope(other.pk):
        assert spent_today_micros(user_id=ana.pk) == 0
        assert UsageEntry.objects.count() == 0


def test_a_usage_needs_a_scope(tenant: Tenant, ana: User) -> None:
    with pytest.raises(ScopeMissing):
        entry(ana)


@given(
    tokens=st.tuples(*[st.integers(0, 10**7)] * 4), prices=st.tuples(*[st.integers(0, 10**8)] * 4)
)
def test_a_cost_is_rounded_up_by_less_than_one_micro(
    tokens: tuple[int, int, int, int], prices: tuple[int, int, int, int]
) -> None:
    put_in, given_out, read, written = tokens
    unit = UnitPrices(
        input=prices[0],
        output=prices[1],
        cache_read=prices[2],
        cache_write=prices[3],
        matched="m",
    )
    cost = unit.cost_micros(
        input_tokens=put_in, output_tokens=given_out, cache_read=read, cache_write=written
    )
    exact = sum(count * price for count, price in zip(tokens, prices, strict=True))
    assert 0 <= cost * 1_000_000 - exact < 1_000_000

"""A provider that is down: three tries, then its circuit, and nothing of the fan's is touched."""

import asyncio
from typing import Any

import pytest

from boxoffice.acquirer.server import Trouble
from boxoffice.common import valkey
from boxoffice.common.clock import now
from boxoffice.tenancy.models import Tier
from boxoffice.ticketing.models import Hold, Order
from tests.support.acquirer import Acquirer
from tests.tools.buying import Buyer, sending_in
from tools import circuits, remote
from tools.circuits import Circuit
from tools.models import RemoteEffect
from tools.remote import Found

DOWN = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def _counts(acquirer: Acquirer, settings: Any) -> None:
    settings.CIRCUIT_FAILURES = 5
    settings.VALKEY_PATIENCE_SECONDS = 10.0
    valkey.forget_absence()


def circuit_of(buyer: Buyer, tier: str = "") -> circuits.Row:
    seen = circuits.circuits_seen(tenant_id=buyer.house.tenant.pk, tiers=[tier] if tier else [])
    (row,) = (row for row in seen if (row.tool, row.tier) == ("place_order", tier))
    return row


def test_five_tries_of_two_calls_open_it_and_the_third_call_is_not_begun(
    buyer: Buyer, settings: Any
) -> None:
    first, second, third = (buyer.begun("place_order") for _ in range(3))
    hold = Hold.objects.get(pk=third.call.arguments["hold_id"])
    settings.PAYMENT_URL = DOWN
    call = buyer.finish(first)
    assert (call.state, call.error["code"]) == ("failed", "provider_unavailable")
    assert circuit_of(buyer).sight.failures == 3
    assert buyer.finish(second).error["code"] == "provider_unavailable"
    assert circuit_of(buyer).sight.failures == 5  # and no third try
    # What was written down before is not sent either; its seats are the fan's again.
    assert buyer.finish(third).error["code"] == "provider_unavailable"
    assert circuit_of(buyer).sight.failures == 5
    hold.refresh_from_db()
    assert hold.status == "active"
    orders = Order.objects.count()
    refused = buyer.again(buyer.proposed("place_order").pk).call
    assert (refused.state, refused.error["code"]) == ("denied", "circuit_open")
    assert Order.objects.count() == orders


def test_what_may_have_arrived_is_looked_up_although_the_circuit_is_open(
    buyer: Buyer,
) -> None:
    report = buyer.begun("place_order")
    for _ in range(5):
        circuit = Circuit(key=circuits.key_of(buyer.house.tenant.pk, "place_order"))
        asyncio.run(circuit.tell("failure"))
    buyer.acquirer.asked.clear()
    buyer.acquirer.expect(Trouble.DROP_AFTER)
    sending = sending_in(report)
    let_in_before = Circuit(key=circuits.key_of(buyer.house.tenant.pk, "place_order"))
    finding = asyncio.run(remote.ask(sending, let_in_before))
    assert finding.found is Found.DONE
    assert buyer.acquirer.asked == ["move", "lookup"]


def test_a_probe_that_the_provider_answers_closes_it(buyer: Buyer) -> None:
    report = buyer.begun("place_order")
    key = circuits.key_of(buyer.house.tenant.pk, "place_order")
    for _ in range(5):
        asyncio.run(Circuit(key=key).tell("failure"))
    assert asyncio.run(circuits.knock(key=key, timeout_s=1.0)) is None
    assert circuit_of(buyer).sight.open_s is not None
    finding = asyncio.run(remote.ask(sending_in(report), Circuit(key=key, is_probe=True)))
    assert finding.found is Found.DONE
    assert circuit_of(buyer).sight.open_s is None


def test_whoever_goes_on_counts_on_the_circuit_of_the_first(buyer: Buyer, settings: Any) -> None:
    """ana's tier has a circuit of its own: a death does not send her to everybody's."""
    Tier.objects.filter(slug="pro").update(dedicated_circuit=True)
    first, second = buyer.begun("place_order"), buyer.begun("place_order")
    settings.PAYMENT_URL = DOWN
    assert buyer.finish(first).error["code"] == "provider_unavailable"
    # The worker of the second dies; another one asks whether it is there, and sends it again.
    settings.PAYMENT_URL = buyer.acquirer.url
    again = sending_in(buyer.again(second.call.pk))
    buyer.acquirer.always(Trouble.BUSY)
    assert not asyncio.run(remote.ask(again)).is_known
    # Nor does the sweep.
    RemoteEffect.objects.update(due_at=now())
    swept = remote.take(call_id=second.call.pk)
    assert swept is not None
    assert swept.circuit == again.circuit == circuits.key_of(again.tenant_id, again.tool, "pro")
    assert circuit_of(buyer, "pro").sight.failures == 5
    assert circuit_of(buyer).sight.failures == 0

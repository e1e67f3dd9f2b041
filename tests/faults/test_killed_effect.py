"""A worker dies while another party is asked: the money moves once, and somebody knows."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agents.models import Message, Run, RunState, Speaker
from approvals import services as approvals
from approvals.models import ApprovalRequest
from boxoffice.acquirer.server import Trouble
from boxoffice.ticketing.models import Order, Refund
from tests.faults.scenarios import Floor
from tests.faults.walk import asks_what_it_is_told
from tests.support.acquirer import Acquirer
from tests.support.cast import Cast
from tests.support.scripted_model import ScriptedModel
from tests.support.stack import Stack
from tools.models import RemoteEffect, ToolCall

RECOVERS_SECONDS = 10
TOOLS = ["place_order", "refund_order"]
# Where the worker dies, and what its request met before.
DEATHS: list[tuple[str, Trouble | None]] = [
    ("effect_sent", None),
    ("effect_looked_up", Trouble.ERROR),
    ("effect_end_open", None),
]
MORE_DEATHS: list[tuple[str, Trouble | None]] = [
    ("call_committed", None),
    ("effect_begun", None),
    ("effect_sent", Trouble.DROP),
    ("effect_sent", Trouble.DROP_AFTER),
    ("effect_looked_up", Trouble.ERROR_AFTER),
    ("effect_end_committed", None),
]
CASES = [
    *(pytest.param("place_order", *death) for death in DEATHS),
    *(pytest.param("refund_order", *death, marks=pytest.mark.long) for death in DEATHS),
    *(pytest.param(t, *death, marks=pytest.mark.long) for t in TOOLS for death in MORE_DEATHS),
]


@pytest.fixture(scope="module")
def acquirer() -> Iterator[Acquirer]:
    """A payment provider that outlives the workers."""
    with Acquirer() as live:
        yield live


@pytest.fixture(scope="module")
def crash_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Naming a crash point in this file arms it, for one process."""
    return tmp_path_factory.mktemp("crash") / "point"


@pytest.fixture(scope="module")
def floor(house: Cast) -> Floor:
    """A seat for each case."""
    return Floor.build(house, seats=60)


@pytest.fixture(scope="module")
def stack(
    house: Cast,
    scripted: ScriptedModel,
    acquirer: Acquirer,
    crash_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stack]:
    """Three workers and the scheduler."""
    env = {
        "ANTHROPIC_API_KEY": "scripted",
        "ANTHROPIC_BASE_URL": scripted.base_url,
        "BOXOFFICE_CRASH_FILE": str(crash_file),
        "LEASE_SECONDS": "3",
        "PAYMENT_URL": acquirer.url,
    }
    home: Path = tmp_path_factory.mktemp("stack")
    with Stack(home=home, workers=3, web=False, env=env) as live:
        yield live


@pytest.fixture(autouse=True)
def calm(asked: ScriptedModel, acquirer: Acquirer) -> Iterator[None]:
    """The model does as the fan says, and the provider works."""
    asked.route(asks_what_it_is_told)
    acquirer.forget()
    yield
    acquirer.forget()


def until(house: Cast, run: Run, *states: str) -> None:
    """Wait until a run is in one of the states."""
    deadline = time.monotonic() + RECOVERS_SECONDS + 20
    while (state := house.run(run.pk).state) not in states:
        assert time.monotonic() < deadline, f"{state}: {house.kinds(run.pk)}"
        time.sleep(0.05)


def revive(stack: Stack) -> None:
    """Start the workers that have died."""
    for name, process in list(stack.processes.items()):
        if process.poll() is not None:
            stack.kill(name)
            stack.start(name)


def asked_for(floor: Floor, acquirer: Acquirer, tool: str) -> Run:
    """A run of ana's that waits for its human."""
    with floor.cast.scope():
        if tool == "place_order":
            arguments = {"hold_id": str(floor.hold())}
        else:
            order = Order.objects.select_related("payment").get(pk=floor.order())
            acquirer.enter(order.payment.reference, order.total_minor)
            arguments = {"order_id": str(order.pk), "reason": "fiquei doente"}

    run = floor.cast.post("ana", json.dumps({"tool": tool, "arguments": arguments}))
    until(floor.cast, run, RunState.WAITING)
    return run


def agree(house: Cast, run: Run) -> None:
    """Its human agrees."""
    with house.scope():
        request = ApprovalRequest.objects.get(run_ref=run.pk)
        who = "ana" if request.gate == "fan" else "rita"
        approvals.approve(request_id=request.pk, principal=house.principal(who))


def done_once(house: Cast, acquirer: Acquirer, run: Run) -> None:
    """The money moved once, everything says so, and the fan has one answer."""
    with house.scope():
        (call,) = ToolCall.objects.select_related("approval").filter(run_ref=run.pk)
        assert call.state == "succeeded"
        assert call.approval is not None
        assert call.approval.state == "executed"
        moved = [m.amount_minor for m in acquirer.moved if m.key == call.idempotency_key]
        if call.tool == "place_order":
            order = Order.objects.get(pk=call.result["order_id"])
            assert (order.status, order.payment.status) == ("paid", "captured")
            assert order.hold.status == "converted"
            assert moved == [order.total_minor]
        else:
            refund = Refund.objects.get(pk=call.result["refund_id"])
            assert (refund.status, refund.order.status) == ("refunded", "refunded")
            assert moved == [refund.amount_minor]
        assert Message.objects.filter(run=run, speaker=Speaker.ASSISTANT).count() == 1
        assert not RemoteEffect.objects.filter(call=call, to_tell=True).exists()


@pytest.mark.parametrize(("tool", "point", "trouble"), CASES)
def test_the_money_moves_once_wherever_a_worker_dies(
    floor: Floor,
    stack: Stack,
    acquirer: Acquirer,
    crash_file: Path,
    tool: str,
    point: str,
    trouble: Trouble | None,
) -> None:
    run = asked_for(floor, acquirer, tool)
    acquirer.expect(trouble)
    crash_file.write_text(point)
    agree(floor.cast, run)
    until(floor.cast, run, RunState.SUCCEEDED)
    assert not crash_file.exists(), f"{point} was not reached"
    done_once(floor.cast, acquirer, run)
    revive(stack)

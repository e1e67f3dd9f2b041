"""A sender dies in the middle of an e-mail: it is never sent twice by itself."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from boxoffice.common import clock
from boxoffice.ticketing.models import OutboundEmail
from boxoffice.ticketing.services.emails import email_queue, email_settle
from tests.support.cast import Cast
from tests.support.stack import Stack


@pytest.fixture(scope="module")
def crash_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Naming a crash point in this file arms it, for one process."""
    return tmp_path_factory.mktemp("crash") / "point"


@pytest.fixture(scope="module")
def stack(
    house: Cast, crash_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stack]:
    """A worker, which writes e-mail to its log, and the scheduler."""
    home: Path = tmp_path_factory.mktemp("stack")
    env = {"BOXOFFICE_CRASH_FILE": str(crash_file)}
    with Stack(home=home, workers=1, web=False, env=env) as live:
        yield live


def until(condition: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 40
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize(("point", "went_out"), [("email_begun", False), ("email_sent", True)])
def test_an_email_goes_out_once_wherever_its_sender_dies(
    house: Cast, stack: Stack, crash_file: Path, point: str, went_out: bool
) -> None:
    with house.scope():
        crash_file.write_text(point)
        email = email_queue(
            to="ana@example.com", subject=f"Assunto {point}", body="Oi", user_id=None, key=point
        )
        until(lambda: stack.processes["worker0"].poll() is not None)
        assert not crash_file.exists()
        log = stack.log("worker0")
        assert log.count(email.message_id) == int(went_out)
        row = OutboundEmail.objects.filter(pk=email.pk)
        assert row.get().status == "sending"
        stack.kill("worker0")
        stack.start("worker0")
        row.update(sending_since=clock.now() - timedelta(hours=1), next_attempt_at=clock.now())
        until(lambda: row.get().status == "unknown")
        assert email.message_id not in stack.log("worker0")
        assert email_settle(email_id=email.pk, went_out=went_out, actor="system:test")
        until(lambda: row.get().status == "sent")
        assert stack.log("worker0").count(email.message_id) == int(not went_out)

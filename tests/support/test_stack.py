"""The stack of the tests: it starts, serves the test database, and ends by process id."""

from pathlib import Path

import httpx2
import pytest

from boxoffice.tenancy.models import Tenant
from tests.support.stack import Stack


@pytest.mark.django_db(transaction=True)
def test_serves_what_the_test_committed_and_ends(tmp_path: Path) -> None:
    Tenant.objects.create(slug="stack", name="Casa do Teste")
    with Stack(home=tmp_path, workers=1) as stack:
        assert "Casa do Teste" in httpx2.get(stack.url).text
        pids = dict(stack.processes)
        stack.kill_worker(0)
        assert pids["worker0"].returncode == -9
        stack.restart("worker0")
        assert stack.pid("worker0") != pids["worker0"].pid
        running = list(stack.processes.values())
    assert all(process.returncode is not None for process in running)

"""PostgreSQL and Valkey of this test process, in a folder that goes away with it."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from boxoffice.config.devstack import start_postgres, start_valkey
from boxoffice.config.devstack.process import RunningServer


class TestServers:
    """Started before anything reads the settings; PostgreSQL may be stopped and started again."""

    __test__ = False

    def __init__(self) -> None:
        self._home = Path()
        self._postgres: RunningServer | None = None

    def start(self) -> None:
        """Start both, and name them in the environment."""
        self._home = Path(tempfile.mkdtemp(prefix="boxoffice-tests-"))
        atexit.register(shutil.rmtree, self._home, ignore_errors=True)
        self._postgres = start_postgres(self._home, durable=False)
        # atexit runs backwards: the servers end before their folder goes.
        atexit.register(self.postgres_stop)
        valkey = start_valkey(self._home, durable=False)
        atexit.register(valkey.stop)
        os.environ["DATABASE_URL"] = self._postgres.url
        os.environ["REDIS_URL"] = valkey.url
        os.environ.pop("CELERY_BROKER_URL", None)
        os.environ["BOXOFFICE_HOME"] = str(self._home)

    def postgres_stop(self) -> None:
        """PostgreSQL's fast shutdown: every connection of everybody is broken."""
        assert self._postgres is not None, "These are servers of somebody else's."
        self._postgres.stop()

    def postgres_start(self) -> None:
        """Start it again, with its data, at the same address."""
        assert self._postgres is not None, "These are servers of somebody else's."
        url = self._postgres.url
        self._postgres = start_postgres(self._home, durable=False)
        assert self._postgres.url == url


servers = TestServers()

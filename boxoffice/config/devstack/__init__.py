"""The servers and processes that `make run` and the tests start by themselves.

Nothing of the site imports this package: it stands outside and starts the site.
"""

from boxoffice.config.devstack.postgres import start_postgres
from boxoffice.config.devstack.process import AlreadyRunning, DevstackError, RunningServer
from boxoffice.config.devstack.valkey import start_valkey

__all__ = ["AlreadyRunning", "DevstackError", "RunningServer", "start_postgres", "start_valkey"]

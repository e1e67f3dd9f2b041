"""The servers of one run of the benchmarks, and the environment that names them."""

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from boxoffice.config.devstack import start_postgres, start_valkey

CHECKOUT = Path(__file__).resolve().parents[1]
# Nothing of the caller's shell may reach a real model, a real database or a real queue.
_FOREIGN = ("ANTHROPIC_", "CELERY_", "DATABASE_", "ALLOWED_HOSTS", "STREAM_", "LEASE_")


@contextmanager
def servers() -> Iterator[dict[str, str]]:
    """Start a durable PostgreSQL and a Valkey in a folder of their own, migrated.

    Yields the environment for processes that use them; all is gone afterwards.
    """
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="boxoffice-bench-")))
        postgres = start_postgres(home, durable=True)
        stack.callback(postgres.stop)
        valkey = start_valkey(home, durable=True)
        stack.callback(valkey.stop)
        environ = {k: v for k, v in os.environ.items() if not k.startswith(_FOREIGN)}
        environ |= {
            "DATABASE_URL": postgres.url,
            "REDIS_URL": valkey.url,
            "BOXOFFICE_HOME": str(home),
            "BENCHMARK_POSTGRES_PID": str(postgres.pid),
            "BENCHMARK_VALKEY_PID": str(valkey.pid),
            "SECRET_KEY": secrets.token_urlsafe(40),
            "DJANGO_SETTINGS_MODULE": "boxoffice.config.settings",
            # As in production (Django keeps every query when debugging), but plain http.
            "DEBUG": "0",
            "SECURE_COOKIES": "0",
            "SECURE_SSL_REDIRECT": "0",
            "LOG_LEVEL": "WARNING",
        }
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--noinput", "--verbosity=0"],
            cwd=CHECKOUT,
            env=environ,
            check=True,
        )
        yield environ

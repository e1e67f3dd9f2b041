"""Servers and settings of a test session.

Runs before anything imports the settings: PostgreSQL and Valkey are started here, for this
process alone, in a folder that goes away with it. Set BOXOFFICE_TEST_EXTERNAL=1 together with
DATABASE_URL and REDIS_URL to use servers of your own.
"""

import os
import secrets

import django
import pytest

from boxoffice.tenancy.postgres import base as postgres
from tests.support.servers import servers


def _prepare_environment() -> None:
    if os.environ.get("BOXOFFICE_TEST_EXTERNAL") != "1":
        servers.start()
    # The model of the tests is a scripted one; a key in the shell must not reach the real one.
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        os.environ.pop(name, None)
    os.environ.pop("ALLOWED_HOSTS", None)
    # Plain http on the loopback; pytest-django turns the debug pages off all the same.
    os.environ["DEBUG"] = "1"
    os.environ["SECRET_KEY"] = secrets.token_urlsafe(40)
    os.environ["DJANGO_SETTINGS_MODULE"] = "boxoffice.config.settings"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Let each process of a parallel run start servers of its own.

    They inherit this environment, and pytest-django would read the settings from it before their
    own conftest runs: all would share this process's database and broker.
    """
    for name in ("DJANGO_SETTINGS_MODULE", "DATABASE_URL", "REDIS_URL", "BOXOFFICE_HOME"):
        os.environ.pop(name, None)


_prepare_environment()
django.setup()
# A test may hold one transaction all along, and on a busy machine rest in it for longer than a
# server process may; those of the tests that are processes of their own keep to the bound.
postgres.IDLE_SECONDS = 120


pytest_plugins = ["tests.support.database", "tests.support.matrix", "tests.support.storm"]

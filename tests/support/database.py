"""The test database: made and destroyed by the owner of the tables, used by the application."""

from collections.abc import Iterator

import pytest
from django.test.utils import setup_databases, teardown_databases
from pytest_django import DjangoDbBlocker

from boxoffice.tenancy.owner import owner_connection


@pytest.fixture(scope="session")
def django_db_setup(
    django_test_environment: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[None]:
    """In place of pytest-django's: the application role can neither create nor drop a database."""
    with django_db_blocker.unblock():
        with owner_connection():
            config = setup_databases(verbosity=0, interactive=False, serialized_aliases=[])
        yield
        with owner_connection():
            teardown_databases(config, verbosity=0)

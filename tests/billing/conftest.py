"""A tenant with two fans, and prices read afresh."""

from collections.abc import Iterator

import pytest

from boxoffice.billing.selectors import prices_forget
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.scope import tenant_scope


@pytest.fixture(autouse=True)
def _fresh_prices() -> Iterator[None]:
    prices_forget()
    yield
    prices_forget()


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="arena", name="Arena", time_zone="America/Sao_Paulo")


@pytest.fixture
def scope(tenant: Tenant) -> Iterator[Tenant]:
    with tenant_scope(tenant.pk):
        yield tenant


@pytest.fixture
def ana(db: None) -> User:
    return User.objects.create_user("ana")


@pytest.fixture
def fabio(db: None) -> User:
    return User.objects.create_user("fabio")

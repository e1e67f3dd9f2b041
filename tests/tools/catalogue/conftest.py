"""A house with its scope open, and a way to call a tool as the harness does."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import User
from boxoffice.tenancy.scope import tenant_scope
from tests.ticketing.factory import House, make_house
from tools import guard, registry
from tools.spec import ToolContext, ToolSpec

type Call = Callable[..., JsonObject]


@pytest.fixture
def other_house(db: None) -> House:
    """Another tenant with the same seats."""
    return make_house("teatro")


@pytest.fixture
def house(db: None) -> Iterator[House]:
    """The tenant whose scope is open during the test."""
    made = make_house("arena")
    with tenant_scope(made.tenant.pk):
        yield made


def the_tool(name: str) -> ToolSpec:
    """A tool that must exist."""
    spec = registry.find(name)
    assert spec is not None
    return spec


def context_of(house: House, user: User | None, key: str | None = None) -> ToolContext:
    """The call context of a fan, or of a visitor."""
    return ToolContext(
        tenant_id=house.tenant.pk,
        user_id=None if user is None else user.pk,
        time_zone="America/Sao_Paulo",
        language="en",
        idempotency_key=key or f"test:{uuid4()}",
    )


@pytest.fixture
def call(house: House) -> Call:
    """Parse the arguments as the guard does, run the tool, give the result as JSON."""

    def run(name: str, user: User | None = None, key: str | None = None, **arguments: Any) -> Any:
        spec = the_tool(name)
        context = context_of(house, user or house.ana, key)
        parsed = guard.parse(spec, arguments)
        if spec.remote is not None:  # the other party says yes at once
            spec.remote.begin(context, parsed)
            context = replace(context, receipt={"provider_id": "test"})
        result = spec.run(context, parsed)
        assert type(result) is spec.output_model
        return result.model_dump(mode="json")

    return run


@pytest.fixture
def preview(house: House) -> Call:
    """What a person would be shown of a call."""

    def run(name: str, user: User | None = None, **arguments: Any) -> Any:
        spec = the_tool(name)
        assert spec.preview is not None
        return spec.preview(context_of(house, user or house.ana), guard.parse(spec, arguments))

    return run

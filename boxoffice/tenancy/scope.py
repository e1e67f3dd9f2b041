"""Which tenant the running code works for. Only this module opens a tenant.

The scope is a context variable that the managers of tenant-owned models read (no scope: they
raise), and that the database connection tells PostgreSQL before each query (no scope: row-level
security shows nothing). Either layer alone isolates the tenants.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from uuid import UUID


class ScopeMissing(RuntimeError):
    """A tenant-owned table was asked for outside any scope."""


class ScopeConflict(RuntimeError):
    """A scope was to be opened inside another one that does not contain it."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The tenants that may be seen; ``None`` stands for all of them (platform work)."""

    tenant_ids: frozenset[UUID] | None
    reason: str

    @property
    def setting(self) -> str:
        """The value of the PostgreSQL setting ``boxoffice.tenant``."""
        if self.tenant_ids is None:
            return "*"
        return ",".join(sorted(str(tenant_id) for tenant_id in self.tenant_ids))

    def contains(self, other: "Scope") -> bool:
        """Whether everything that ``other`` sees is seen here too."""
        if self.tenant_ids is None:
            return True
        return other.tenant_ids is not None and other.tenant_ids <= self.tenant_ids


_scope: ContextVar[Scope | None] = ContextVar("boxoffice_tenant_scope", default=None)


def current_scope() -> Scope | None:
    """The open scope, if any."""
    return _scope.get()


def current_tenant_id() -> UUID:
    """The one tenant of the open scope; raises ``ScopeMissing`` when there is not exactly one."""
    scope = _scope.get()
    if scope is None or scope.tenant_ids is None or len(scope.tenant_ids) != 1:
        raise ScopeMissing("This needs the scope of exactly one tenant.")
    return next(iter(scope.tenant_ids))


@contextmanager
def _open(scope: Scope) -> Iterator[Scope]:
    outer = _scope.get()
    if outer is not None and not outer.contains(scope):
        raise ScopeConflict(f"{scope.reason}: a scope can be narrowed, never widened or changed.")
    token = _scope.set(scope)
    try:
        yield scope
    finally:
        _scope.reset(token)


def tenant_scope(tenant_id: UUID) -> AbstractContextManager[Scope]:
    """Work for one tenant: ``with tenant_scope(tenant.pk): …``."""
    return _open(Scope(frozenset({tenant_id}), "tenant"))


def tenants_scope(tenant_ids: Iterable[UUID], reason: str) -> AbstractContextManager[Scope]:
    """See several tenants at once (a tenant admin who holds more than one)."""
    return _open(Scope(frozenset(tenant_ids), reason))


def operator_scope(reason: str) -> AbstractContextManager[Scope]:
    """See all tenants: sweeps, metrics and the platform operator. ``reason`` is for the reader."""
    return _open(Scope(None, reason))

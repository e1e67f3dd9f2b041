"""Whose turn it is: PostgreSQL decides which queued run begins next, over all tenants.

The tenant with the fewest runs at work for its share goes first, then the oldest run. A tenant
never has more at work than its cap, a person not more than theirs, and visitors together not more
than half of their tenant's cap, so that a rush of strangers leaves room for those who signed in.
"""

from uuid import UUID

from django.conf import settings

from boxoffice.common.batch import Batch, Chosen

# Any number that no other advisory lock of the database has: "turn" in ASCII.
_LOCK = 0x7475726E

# Three, as a run that somebody else is just changing is passed over.
_QUEUED = """
SELECT q.id FROM agents_run q
WHERE q.tenant_id = line.tenant_id AND q.state = 'queued' AND q.is_anonymous = {anonymous}
  AND q.cancel_requested_at IS NULL
  AND (q.tenant_id, q.asked_by) NOT IN (SELECT tenant_id, asked_by FROM busy)
  AND (q.parent_id IS NOT NULL OR q.conversation_id NOT IN (
    SELECT conversation_id FROM at_work WHERE parent_id IS NULL
  ))
  {narrowed}
ORDER BY q.id LIMIT 3
"""

# `waiting` jumps from tenant to tenant along the index of queued runs: a rush of thousands costs
# no more than one run.
_NEXT = """
WITH RECURSIVE at_work AS MATERIALIZED (
  SELECT tenant_id, conversation_id, parent_id, asked_by, is_anonymous
  FROM agents_run WHERE state = 'running'
), load AS (
  SELECT tenant_id, count(*) AS runs, count(*) FILTER (WHERE is_anonymous) AS visitors
  FROM at_work GROUP BY tenant_id
), busy AS (
  SELECT tenant_id, asked_by FROM at_work WHERE asked_by <> ''
  GROUP BY tenant_id, asked_by HAVING count(*) >= %s
), waiting(tenant_id) AS (
  (SELECT tenant_id FROM agents_run WHERE state = 'queued' ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT (
    SELECT r.tenant_id FROM agents_run r
    WHERE r.state = 'queued' AND r.tenant_id > w.tenant_id ORDER BY r.tenant_id LIMIT 1
  ) FROM waiting w WHERE w.tenant_id IS NOT NULL
), line AS (
  SELECT t.id AS tenant_id, coalesce(l.runs, 0)::float / t.share AS used,
    coalesce(l.visitors, 0) < greatest(1, t.max_concurrent_runs / 2) AS visitors_may
  FROM waiting w JOIN tenancy_tenant t ON t.id = w.tenant_id
  LEFT JOIN load l ON l.tenant_id = t.id
  WHERE coalesce(l.runs, 0) < t.max_concurrent_runs AND (l.runs IS NULL OR NOT %s)
)
SELECT r.id
FROM line
CROSS JOIN LATERAL (
  ({members}) UNION ALL (SELECT id FROM ({visitors}) v WHERE line.visitors_may)
) c
JOIN agents_run r ON r.id = c.id
ORDER BY line.used, r.id LIMIT 1
FOR NO KEY UPDATE OF r SKIP LOCKED
"""


def _text(narrowed: str) -> str:
    return _NEXT.format(
        members=_QUEUED.format(anonymous="false", narrowed=narrowed),
        visitors=_QUEUED.format(anonymous="true", narrowed=narrowed),
    )


_ANY = _text("")
_THIS = _text("AND q.id = %s")


def alone(batch: Batch) -> None:
    """Let one claim at a time choose, so that none counts what another is just adding.

    To be sent by ``Batch.commit``: the server then holds the lock for about a millisecond, however
    busy or dead the process that asked.
    """
    batch.add("SELECT pg_advisory_xact_lock(%s)", [_LOCK])


def next_run(*, run_id: UUID | None = None, is_scarce: bool = False) -> Chosen:
    """The run whose turn it is; for ``run_id`` and ``is_scarce`` see ``leases.run_claim``."""
    values = [settings.RUNS_PER_PERSON, is_scarce]
    if run_id is None:
        return Chosen(_ANY, values)
    return Chosen(_THIS, [*values, run_id, run_id])

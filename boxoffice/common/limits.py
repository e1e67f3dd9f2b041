"""Token buckets and circuits in Valkey, shared by all processes.

One script decides on a caller's buckets and circuit together, by the server's clock: nothing is
taken from one bucket when another is empty or the circuit is open. Who was let in once under a
name (``once``) is not charged again for some minutes: a call that is run anew after a crash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from boxoffice.common.valkey import Question, Script

PAID_SECONDS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    """Holds ``burst`` tokens, and fills at ``per_minute``; ``key`` names whose it is."""

    key: str
    per_minute: int
    burst: int

    @classmethod
    def per_minute_of(cls, key: str, per_minute: int) -> "Bucket":
        """A bucket that holds what one minute brings."""
        return cls(key=key, per_minute=per_minute, burst=max(1, per_minute))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What was decided: at most one of ``empty`` (number of the bucket) and ``is_open``.

    ``wait_s`` says when it is worth another try. ``is_probe``: the circuit waits to hear what
    becomes of this one caller.
    """

    empty: int | None = None
    is_open: bool = False
    is_probe: bool = False
    wait_s: float = 0.0


# KEYS: circuit, paid, bucket… · ARGV: has circuit, ms of a probe, ms paid, then for each bucket
# ms per token and burst → {0, is probe} | {1, bucket, ms to wait} | {2, ms to wait}.
# A bucket is kept as the moment at which it will be full again (GCRA): one number.
_ENTER = Script("""
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local full, paid = {}, #ARGV == 3 or redis.call('EXISTS', KEYS[2]) == 1
if not paid then
  for i = 1, #KEYS - 2 do
    local each, burst = tonumber(ARGV[2 + 2 * i]), tonumber(ARGV[3 + 2 * i])
    local at = redis.call('GET', KEYS[2 + i])
    at = at and math.max(tonumber(at), now) or now
    local wait = at + each - each * burst - now
    if wait > 0.01 then return {1, i - 1, math.ceil(wait)} end
    full[i] = at + each
  end
end
local probe = 0
if ARGV[1] == '1' then
  local circuit = redis.call('HMGET', KEYS[1], 'open', 'probe')
  if circuit[1] then
    local wait = math.max(tonumber(circuit[1]), tonumber(circuit[2] or 0)) - now
    if wait > 0 then return {2, math.ceil(wait)} end
    redis.call('HSET', KEYS[1], 'probe', string.format('%.3f', now + ARGV[2]))
    probe = 1
  end
end
if not paid then
  for i = 1, #KEYS - 2 do
    local left = math.max(1, math.ceil(full[i] - now))
    redis.call('SET', KEYS[2 + i], string.format('%.4f', full[i]), 'PX', left)
  end
  redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
end
return {0, probe}
""")

# KEYS: circuit · ARGV: failure | success | void, is probe, failures that open it, ms it stays
# open, ms within which failures count → 1 when this has opened it.
# Only the probe speaks while it is open: what was on its way before tells nothing new. A success
# takes no failure back, or a party that fails every other time would never be left alone.
_TELL = Script("""
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local is_open, opens = redis.call('HEXISTS', KEYS[1], 'open') == 1, false
if is_open and ARGV[2] == '1' then
  if ARGV[1] == 'success' then redis.call('DEL', KEYS[1]) return 0 end
  redis.call('HDEL', KEYS[1], 'probe')
  opens = ARGV[1] == 'failure'
elseif not is_open and ARGV[1] == 'failure' then
  local since = redis.call('HGET', KEYS[1], 'since')
  if not since or now - since > tonumber(ARGV[5]) then
    redis.call('DEL', KEYS[1])
    redis.call('HSET', KEYS[1], 'since', string.format('%.3f', now))
  end
  opens = redis.call('HINCRBY', KEYS[1], 'failures', 1) >= tonumber(ARGV[3])
  redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
if opens then
  redis.call('HSET', KEYS[1], 'open', string.format('%.3f', now + ARGV[4]))
  redis.call('PEXPIRE', KEYS[1], ARGV[4] + ARGV[5])
  return 1
end
return 0
""")

# KEYS: circuit… → for each {failures, ms until it may be probed or -1 when it is closed}.
_LOOK = Script("""
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local seen = {}
for i, key in ipairs(KEYS) do
  local c = redis.call('HMGET', key, 'failures', 'open', 'probe')
  local wait = -1
  if c[2] then
    wait = math.max(0, math.ceil(math.max(tonumber(c[2]), tonumber(c[3] or 0)) - now))
  end
  seen[i] = {tonumber(c[1] or 0), wait}
end
return seen
""")


def enter(
    *, once: str, buckets: Sequence[Bucket] = (), circuit: str = "", probe_s: float = 30.0
) -> Question:
    """Ask to be let in under the name ``once``; ``entered`` reads the answer.

    All keys of one question share a hash tag, ``{…}``, or live on one server.
    """
    rates = [value for b in buckets for value in (60_000 / max(1, b.per_minute), b.burst)]
    return Question(
        _ENTER,
        [circuit or "-", once, *(bucket.key for bucket in buckets)],
        [int(bool(circuit)), int(probe_s * 1000), PAID_SECONDS * 1000, *rates],
    )


def entered(answer: Any) -> Entry:
    """What ``enter`` was answered."""
    kind, *rest = answer
    if kind == 1:
        return Entry(empty=rest[0], wait_s=rest[1] / 1000)
    if kind == 2:
        return Entry(is_open=True, wait_s=rest[0] / 1000)
    return Entry(is_probe=bool(rest[0]))


def tell(*, circuit: str, what: str, is_probe: bool) -> Question:
    """Tell a circuit of a ``failure``, a ``success``, or ``void``: a probe that was not run.

    The answer is 1 when that has opened it.
    """
    return Question(
        _TELL,
        [circuit],
        [
            what,
            int(is_probe),
            settings.CIRCUIT_FAILURES,
            int(settings.CIRCUIT_OPEN_SECONDS * 1000),
            int(settings.CIRCUIT_WINDOW_SECONDS * 1000),
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A circuit as it stands: failures counted, and seconds until a probe if it is open."""

    failures: int
    open_s: float | None


def look(circuits: Sequence[str]) -> Question:
    """Look at circuits without touching them; ``seen`` reads the answer."""
    return Question(_LOOK, circuits, [])


def seen(answer: Any) -> list[Sight]:
    """What ``look`` was answered, in its order."""
    return [
        Sight(failures=failures, open_s=None if wait < 0 else wait / 1000)
        for failures, wait in answer
    ]

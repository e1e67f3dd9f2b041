"""How much each figure measures: enough to trust, enough to glance, enough to see that it runs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Counts of one size; times are seconds."""

    step_runs: int
    steps_per_run: int
    storage: dict[int, int]
    """Runs to make, by their number of steps."""
    limit_rounds: int
    """Calls of each of two hundred callers."""
    talks: int
    """Messages, one after another, whose first token is timed."""
    crowd: int
    """Conversations at once before the page."""
    crowd_tokens: int
    reconnects: int
    runs: int
    """Runs at once."""
    run_tokens: int
    workers: tuple[int, ...]
    rules: tuple[int, ...]
    """Rules in force."""
    guard_calls: int
    rush: int
    """Runs that one tenant has queued."""
    rush_talks: int
    """Messages of another tenant meanwhile, one after another."""
    soak_steps: int


SIZES = {
    "full": Size(
        step_runs=30,
        steps_per_run=20,
        storage={10: 64, 40: 24, 160: 8},
        limit_rounds=50,
        talks=40,
        crowd=100,
        crowd_tokens=500,
        reconnects=50,
        runs=300,
        run_tokens=60,
        workers=(1, 2),
        rules=(1, 50, 500),
        guard_calls=2_000,
        rush=500,
        rush_talks=20,
        soak_steps=10000,
    ),
    "quick": Size(
        step_runs=10,
        steps_per_run=20,
        storage={10: 24, 40: 8, 160: 3},
        limit_rounds=10,
        talks=10,
        crowd=100,
        crowd_tokens=150,
        reconnects=50,
        runs=100,
        run_tokens=60,
        workers=(2,),
        rules=(1, 50, 500),
        guard_calls=300,
        rush=500,
        rush_talks=12,
        soak_steps=2000,
    ),
    "tiny": Size(
        step_runs=2,
        steps_per_run=3,
        storage={2: 2, 4: 2},
        limit_rounds=1,
        talks=2,
        crowd=3,
        crowd_tokens=20,
        reconnects=1,
        runs=4,
        run_tokens=5,
        workers=(1,),
        rules=(1, 5),
        guard_calls=5,
        rush=6,
        rush_talks=1,
        soak_steps=24,
    ),
}

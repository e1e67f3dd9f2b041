"""How many hostile calls are made, and where is said what came of them."""

from collections import Counter
from dataclasses import dataclass

import pytest

SHORT = 300
LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The bounds of a storm."""
    group = parser.getgroup("hostile calls")
    group.addoption("--hostile-calls", type=int, default=SHORT, help="how many calls are made")
    group.addoption("--hostile-seconds", type=int, default=1_800, help="none is made after that")


@dataclass(frozen=True)
class Storm:
    """The bounds, and the place for the figures. ``is_full``: other calls at each run."""

    config: pytest.Config
    calls: int
    seconds: int

    @property
    def is_full(self) -> bool:
        """Whether it is more than what each run of the tests makes."""
        return self.calls > SHORT

    def report(self, seen: Counter[tuple[str, str, str]]) -> None:
        """Print at the end how the calls of each principal and tool ended."""
        if not self.is_full:
            return
        states = sorted({state for _, _, state in seen})
        lines = [f"{seen.total()} calls"]
        for name, at in (("principal", 0), ("tool", 1)):
            lines.append(f"{name:26}" + "".join(f"{state:>11}" for state in states))
            for row in sorted({key[at] for key in seen}):
                counts = [
                    sum(n for key, n in seen.items() if key[at] == row and key[2] == state)
                    for state in states
                ]
                lines.append(f"{row:26}" + "".join(f"{count:11}" for count in counts))
        self.config.stash[LINES] = lines


@pytest.fixture
def storm(request: pytest.FixtureRequest) -> Storm:
    """What the command line says."""
    config = request.config
    return Storm(
        config=config,
        calls=config.getoption("--hostile-calls"),
        seconds=config.getoption("--hostile-seconds"),
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The figures."""
    lines = config.stash.get(LINES, [])
    if lines:
        terminalreporter.section("hostile calls")
        for line in lines:
            terminalreporter.write_line(line)

"""What the walk over the crash points is told, and where it prints what it has found."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The walk's own options."""
    group = parser.getgroup("crash points")
    group.addoption(
        "--from-release",
        metavar="COMMIT",
        help="what is deployed over, in tests/faults/test_deploy.py; else the same code",
    )
    group.addoption("--matrix-json", metavar="FILE", help="write the walk's figures there")
    group.addoption(
        "--case",
        default="*",
        metavar="PATTERN",
        help='walk only these deaths, like "send_email/edit call_open#2" or "*/deny *"',
    )


def matrix_report(config: pytest.Config, lines: Iterable[str], figures: object) -> None:
    """Print the lines at the end of the session, and keep the figures if they are wanted."""
    config.stash[LINES] = list(lines)
    path = config.getoption("--matrix-json")
    if path:
        Path(path).write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """The matrix."""
    lines = config.stash.get(LINES, [])
    if lines:
        terminalreporter.section("crash points")
        for line in lines:
            terminalreporter.write_line(line)

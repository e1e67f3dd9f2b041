"""The command of the benchmarks: every figure runs, tiny, and says what it has measured."""

import json
import subprocess
import sys

import pytest

from benchmarks.__main__ import FIGURES
from benchmarks.model import read_wish
from benchmarks.stage import wish
from benchmarks.table import Figure, Row, quantile
from boxoffice.config.devstack.environment import CHECKOUT


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_figure_runs_and_prints_what_it_has_measured() -> None:
    done = bench("--size", "tiny", "--json")
    assert done.returncode == 0, done.stderr
    figures = {each["name"]: Figure.from_data(each) for each in json.loads(done.stdout)}
    assert list(figures) == list(FIGURES)
    for figure in figures.values():
        text = figure.as_text()
        assert text.startswith(figure.title)
        assert len(text.splitlines()) == len(figure.rows) + 3 + len(figure.remarks)
    values = {row.figure: row.value for figure in figures.values() for row in figure.rows}
    for positive in (
        "one model + tool step, p50",
        "rows and indexes per step, runs of 4",
        "5 rules, p95",
    ):
        assert values[positive] > 0
    assert values["first token, 1 conversation, p50"] > 0
    # What must hold on any machine, however slow it is: nothing lost, twice, or failed.
    of_pages = [row for row in figures["stream"].rows if row.expected == "0"]
    assert len(of_pages) == 5
    assert [row.figure for row in of_pages if row.value and "database" not in row.figure] == []
    assert values["  runs that did not succeed"] == 0
    assert 0 < values["  database connections"] <= 20


def test_a_figure_that_does_not_exist_is_refused() -> None:
    done = bench("speed")
    assert done.returncode == 2
    assert "speed" in done.stderr


def test_a_table_is_as_wide_as_its_cells() -> None:
    rows = [
        Row(figure="time", value=1.234, unit="ms", expected="<= 8 ms"),
        Row(figure="a longer name", value=1_234.5, unit="B"),
    ]
    lines = Figure(name="x", title="Title", rows=rows, remarks=["honest"]).as_text().splitlines()
    assert lines[0] == "Title"
    assert lines[3:] == [
        "| time          | 1.23 ms  | <= 8 ms  |           |",
        "| a longer name | 1,234 B  |          |           |",
        "  honest",
    ]
    assert len({len(line) for line in lines[1:5]}) == 1


@pytest.mark.parametrize(("share", "value"), [(0.0, 1), (0.5, 3), (0.95, 4), (1.0, 4)])
def test_a_quantile_is_one_of_the_values(share: float, value: int) -> None:
    assert quantile([4, 1, 3, 2], share) == value
    assert quantile([], share) == 0


def test_the_model_counts_the_turns_since_the_newest_wish() -> None:
    said = {"role": "user", "content": [{"type": "text", "text": wish(steps=3, tokens=7)}]}
    asked = {"role": "assistant", "content": [{"type": "text", "text": "…"}]}
    given = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]}
    wanted, turns = read_wish({"messages": [said, asked, given, asked, given]})
    assert (wanted["steps"], wanted["tokens"], turns) == (3, 7, 2)
    assert read_wish({"messages": [said, asked, said]})[1] == 0

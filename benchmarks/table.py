"""A figure's numbers, as a table for people and as JSON for programs."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

HEADINGS = ("figure", "this run", "expected", "reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One number. ``expected`` is the requirement, ``reference`` what was measured elsewhere."""

    figure: str
    value: float
    unit: str
    expected: str = ""
    reference: str = ""

    @property
    def shown(self) -> str:
        """The number with three telling digits and its unit."""
        digits = 0 if abs(self.value) >= 100 or self.value == int(self.value) else 2
        return f"{self.value:,.{digits}f} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What one benchmark has measured."""

    name: str
    title: str
    rows: list[Row] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> Self:
        """The figure that ``as_data`` was taken of."""
        return cls(**{**data, "rows": [Row(**row) for row in data["rows"]]})

    def as_data(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)

    def as_text(self) -> str:
        """The title, the table, the remarks."""
        cells = [(row.figure, row.shown, row.expected, row.reference) for row in self.rows]
        lines = [self.title, *_table([HEADINGS, *cells]), *(f"  {r}" for r in self.remarks)]
        return "\n".join(lines)


def _table(cells: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADINGS))]
    for number, row in enumerate(cells):
        yield "| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |"
        if number == 0:
            yield "|" + "|".join("-" * (width + 2) for width in widths) + "|"


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which ``share`` of them lie (nearest rank); 0 of no values."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

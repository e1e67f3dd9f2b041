"""Statements of the hot path: several in one message to the server, made from the models' fields.

The ORM builds every statement anew, which costs more than PostgreSQL takes to run it, and waits
for each one. Here the text comes ready from the model, and all of a batch travel together. The
ORM's scope by tenant is not there: a caller names the tenant, and row-level security holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from django.db import connection, models


@dataclass(frozen=True, slots=True)
class Plus:
    """The present value of a column, and so much more."""

    amount: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement did: rows touched, and the rows that it returned."""

    count: int
    rows: list[tuple[Any, ...]]


@dataclass(slots=True)
class Batch:
    """Statements to be sent in order; the first that fails is the last that runs.

    To be sent inside a transaction. An empty batch sends nothing.
    """

    _texts: list[str] = field(default_factory=list)
    _values: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        """How many statements it has."""
        return len(self._texts)

    def extend(self, other: "Batch") -> None:
        """Add all statements of another batch."""
        self._texts += other._texts
        self._values += other._values

    def add(self, text: str, values: Sequence[Any] = ()) -> None:
        """Add a statement; its values are marked ``%s``."""
        self._texts.append(text)
        self._values.extend(values)

    def insert(self, row: models.Model) -> None:
        """Add the insertion of a new row, whose tenant is set. No signal is sent."""
        text, fields = _insertion(type(row))
        self.add(text, [_value(each, each.pre_save(row, add=True)) for each in fields])
        row._state.adding = False
        row._state.db = connection.alias

    def update(
        self, model: type[models.Model], *, changes: Mapping[str, Any], where: Mapping[str, Any]
    ) -> None:
        """Add a change of the rows whose columns equal ``where`` (any of them, for a list)."""
        meta = model._meta
        sets, tests = [], []
        values: list[Any] = []
        for name, value in changes.items():
            column = meta.get_field(name)
            is_more = isinstance(value, Plus)
            sets.append(f'"{column.column}" = ' + (f'"{column.column}" + %s' if is_more else "%s"))  # type: ignore[union-attr]
            values.append(value.amount if is_more else _value(column, value))
        for name, value in where.items():
            column = meta.get_field(name)
            is_any = isinstance(value, list)
            tests.append(f'"{column.column}" = ' + ("ANY(%s)" if is_any else "%s"))  # type: ignore[union-attr]
            values.append(value if is_any else _value(column, value))
        # Names come from the models, values travel apart.
        self.add(
            f'UPDATE "{meta.db_table}" SET {", ".join(sets)} WHERE {" AND ".join(tests)}',  # noqa: S608
            values,
        )

    def select(self, model: type[models.Model], tail: str, values: Sequence[Any]) -> None:
        """Add a query for whole rows, to be read by ``loaded``; ``tail`` begins with WHERE."""
        self.add(f"{_selection(model)} {tail}", values)

    def send(self) -> list[Answer]:
        """Send all, and return the answers in order."""
        if not self._texts:
            return []
        answers = []
        with connection.cursor() as cursor:
            cursor.execute("; ".join(self._texts), self._values)
            for _ in self._texts:
                rows = cursor.fetchall() if cursor.description else []
                answers.append(Answer(cursor.rowcount, rows))
                cursor.nextset()
        return answers


def loaded[M: models.Model](model: type[M], answer: Answer) -> list[M]:
    """The rows of a ``Batch.select`` as instances."""
    names, converters = _reading(model)
    return [
        model.from_db(
            connection.alias,
            names,
            [v if c is None else c(v) for v, c in zip(row, converters, strict=True)],
        )
        for row in answer.rows
    ]


def _value(column: Any, value: Any) -> Any:
    if hasattr(value, "resolve_expression"):
        raise TypeError(f"{column}: an expression needs the ORM.")
    return column.get_db_prep_save(value, connection)


@cache
def _insertion(model: type[models.Model]) -> tuple[str, list[Any]]:
    fields = list(model._meta.concrete_fields)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    marks = ", ".join(["%s"] * len(fields))
    return f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({marks})', fields  # noqa: S608


@cache
def _selection(model: type[models.Model]) -> str:
    table = model._meta.db_table
    columns = ", ".join(f'"{table}"."{each.column}"' for each in model._meta.concrete_fields)
    return f'SELECT {columns} FROM "{table}"'  # noqa: S608


@cache
def _reading(model: type[models.Model]) -> tuple[list[str], list[Any]]:
    fields = model._meta.concrete_fields
    return [each.attname for each in fields], [_converter(each) for each in fields]


def _converter(column: Any) -> Any:
    steps = column.get_db_converters(connection)
    if not steps:
        return None

    def convert(value: Any) -> Any:
        for step in steps:
            value = step(value, None, connection)
        return value

    return convert

"""Statements of the hot path: several in one message to the server, made from the models' fields.

The ORM builds every statement anew, which costs more than PostgreSQL takes to run it, and waits
for each one. Here the text comes ready from the model, all of a batch travel together, and the
server parses and plans each text once per connection. The ORM's scope by tenant is not there: a
caller names the tenant, and row-level security holds.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.db import connection, models, transaction


@dataclass(frozen=True, slots=True)
class Plus:
    """The present value of a column, and so much more."""

    amount: int


@dataclass(frozen=True, slots=True)
class FromNow:
    """So many seconds from now, by the database's clock."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Chosen:
    """In a ``where``: the value that a query finds; no row is touched when it finds none."""

    query: str
    values: Sequence[Any] = ()


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

    _statements: list[tuple[str, Sequence[Any]]] = field(default_factory=list)

    def __len__(self) -> int:
        """How many statements it has."""
        return len(self._statements)

    def extend(self, other: "Batch") -> None:
        """Add all statements of another batch."""
        self._statements += other._statements

    def add(self, text: str, values: Sequence[Any] = ()) -> None:
        """Add a statement; its values are marked ``%s``."""
        self._statements.append((text, values))

    def insert(
        self, row: models.Model, *, unless_there: bool = False, timed: tuple[str, ...] = ()
    ) -> None:
        """Add the insertion of a new row, whose tenant is set. No signal is sent.

        ``unless_there``: nothing happens when its like (by a unique constraint) is there already.
        The fields that ``timed`` names get the database's own time, and are not set on ``row``.
        """
        text, fields = _insertion(type(row), timed)
        if unless_there:
            text += " ON CONFLICT DO NOTHING"
        self.add(text, [_value(each, each.pre_save(row, add=True)) for each in fields])
        row._state.adding = False
        row._state.db = connection.alias

    def update(
        self,
        model: type[models.Model],
        *,
        changes: Mapping[str, Any],
        where: Mapping[str, Any],
        returning: Sequence[str] = (),
    ) -> None:
        """Add a change of the rows whose columns equal ``where``.

        There a list stands for any of its values, ``None`` for a column without a value. The
        answer has the columns ``returning`` of each changed row.
        """
        sets = [_assignment(model, name, value) for name, value in changes.items()]
        tests = [_test(model, name, value) for name, value in where.items()]
        names = ", ".join(f'"{_column(model, name)}"' for name in returning)
        # Names come from the models, values travel apart.
        self.add(
            f'UPDATE "{model._meta.db_table}" SET {", ".join(text for text, _ in sets)} '  # noqa: S608
            f"WHERE {' AND '.join(text for text, _ in tests)}"
            f"{f' RETURNING {names}' if names else ''}",
            [value for _, values in (*sets, *tests) for value in values],
        )

    def select(self, model: type[models.Model], tail: str, values: Sequence[Any]) -> None:
        """Add a query for whole rows, to be read by ``loaded``; ``tail`` begins with WHERE."""
        self.add(f"{_selection(model)} {tail}", values)

    def commit(self) -> list[Answer]:
        """Send all as one whole transaction, its COMMIT in the same message.

        A lock that it takes is then never held while this process is busy with something else.
        """
        with transaction.atomic(durable=True):
            return self._send(["COMMIT"])

    def send(self) -> list[Answer]:
        """Send all, and return the answers in order."""
        return self._send([])

    def _send(self, ending: list[str]) -> list[Answer]:
        if not self._statements:
            return []
        answers = []
        with connection.cursor() as cursor:
            known = _prepared_on(connection.connection)
            with known.learning([text for text, _ in self._statements]) as parts:
                # Values are put into each text by itself: psycopg remembers how to for short texts.
                parts += [
                    cursor.mogrify(_prepared(text).execute, values)
                    for text, values in self._statements
                ]
                cursor.execute("; ".join(parts + ending))
            for _ in range(len(parts) - len(self._statements)):
                cursor.nextset()
            for _ in self._statements:
                has_rows = cursor.pgresult.nfields > 0
                answers.append(Answer(cursor.rowcount, cursor.fetchall() if has_rows else []))
                cursor.nextset()
        return answers


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A statement that the server keeps, by a name that its text has in all connections."""

    prepare: str
    execute: str


@cache
def _prepared(text: str) -> _Prepared:
    name = f"batch_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    pieces = text.split("%s")
    numbered = "".join(f"{piece}${n}" for n, piece in enumerate(pieces[:-1], 1)) + pieces[-1]
    marks = ", ".join(["%s"] * (len(pieces) - 1))
    return _Prepared(
        prepare=f"PREPARE {name} AS {numbered}",
        execute=f"EXECUTE {name}({marks})" if marks else f"EXECUTE {name}",
    )


@dataclass(slots=True)
class _Known:
    """Which texts a connection's server has prepared; that is kept over rollbacks."""

    texts: set[str] = field(default_factory=set)
    is_sure: bool = True

    @contextmanager
    def learning(self, texts: list[str]) -> Iterator[list[str]]:
        """Yield what must be said before the texts can be executed; they are known afterwards."""
        parts: list[str] = []
        if not self.is_sure:
            parts.append("DEALLOCATE ALL")
            self.texts.clear()
        new = [text for text in dict.fromkeys(texts) if text not in self.texts]
        parts += [_prepared(text).prepare for text in new]
        self.is_sure = not parts
        yield parts
        # Where the message has failed, nobody knows how far the server had come.
        self.texts.update(new)
        self.is_sure = True


def _prepared_on(connected: Any) -> _Known:
    found: _Known | None = getattr(connected, "boxoffice_prepared", None)
    if found is None:
        found = connected.boxoffice_prepared = _Known()
    return found


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


def _column(model: type[models.Model], name: str) -> str:
    field: Any = model._meta.get_field(name)
    return str(field.column)


def _assignment(model: type[models.Model], name: str, value: Any) -> tuple[str, list[Any]]:
    column: Any = model._meta.get_field(name)
    if isinstance(value, Plus):
        return f'"{column.column}" = "{column.column}" + %s', [value.amount]
    if isinstance(value, FromNow):
        return f'"{column.column}" = now() + make_interval(secs => %s)', [value.seconds]
    return f'"{column.column}" = %s', [_value(column, value)]


def _test(model: type[models.Model], name: str, value: Any) -> tuple[str, list[Any]]:
    column: Any = model._meta.get_field(name)
    if value is None:
        return f'"{column.column}" IS NULL', []
    if isinstance(value, list):
        return f'"{column.column}" = ANY(%s)', [value]
    if isinstance(value, Chosen):
        return f'"{column.column}" = ({value.query})', list(value.values)
    return f'"{column.column}" = %s', [_value(column, value)]


# What psycopg takes as it is; other columns ask their field.
_PLAIN: tuple[Any, ...] = (
    models.CharField,
    models.TextField,
    models.IntegerField,
    models.BooleanField,
    models.DateTimeField,
    models.UUIDField,
)


def _value(column: Any, value: Any) -> Any:
    if isinstance(value, (str, int, UUID, datetime)) and isinstance(column, _PLAIN):
        return value
    if hasattr(value, "resolve_expression"):
        raise TypeError(f"{column}: an expression needs the ORM.")
    return column.get_db_prep_save(value, connection)


@cache
def _insertion(model: type[models.Model], timed: tuple[str, ...]) -> tuple[str, list[Any]]:
    fields: list[Any] = list(model._meta.concrete_fields)
    columns = ", ".join(f'"{each.column}"' for each in fields)
    marks = ", ".join("now()" if each.name in timed else "%s" for each in fields)
    text = f'INSERT INTO "{model._meta.db_table}" ({columns}) VALUES ({marks})'  # noqa: S608
    return text, [each for each in fields if each.name not in timed]


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

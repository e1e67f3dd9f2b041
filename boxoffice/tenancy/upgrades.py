"""What a migration may not do: the release before is still at work while it runs, and after it.

A deploy migrates first and then ends one process after the other, so old code meets the new tables.
What is refused breaks that code, or locks a table for as long as a scan of it takes. A migration
that does such a thing for a good reason says so: ``reviewed = {"locks": "why it does no harm"}``.
"""

import ast
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.postgres import operations as postgres
from django.db import connection, migrations, models
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

# Tables of few rows that are written seldom: a lock is over before anybody waits.
SMALL = {
    ("tenancy", "tenant"),
    ("tenancy", "tier"),
    ("tenancy", "membership"),
    ("tenancy", "user"),
    ("ticketing", "venue"),
    ("ticketing", "section"),
    ("ticketing", "price"),
    ("billing", "modelprice"),
}
HINTS = {
    "drops": "Take it out of the models only (SeparateDatabaseAndState); drop it a release later.",
    "renames": "Add the new name, write both, and drop the old one a release later.",
    "narrows": "The release before may write what this refuses.",
    "no_default": "Use db_default, or null=True: the release before names no value.",
    "locks": (
        "Use AddIndexConcurrently, AddConstraintNotValid with ValidateConstraint, and foreign keys "
        "with db_index=False: this stops all writers of the table meanwhile."
    ),
    "sql": "Nobody can tell from here what it does: say in `reviewed` why it is safe.",
    "imports": "Write the values out: a migration must not change when the code does.",
    "changed": "It was released: write a new migration instead.",
}
REASON_CHARACTERS = 20

type Table = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that a migration does and may not do."""

    migration: str
    code: str
    what: str

    @property
    def hint(self) -> str:
        """What to do instead."""
        return HINTS[self.code]


def released_path() -> Path:
    """The file that names the migrations of the newest release."""
    return settings.BASE_DIR / "deploy" / "released-migrations.txt"


def released_read() -> dict[tuple[str, str], str]:
    """The migrations of the newest release, and the digest of each one's source."""
    lines = [line.split() for line in released_path().read_text().splitlines()]
    return {
        (label, name): digest for label, name, digest in (x for x in lines if x and x[0] != "#")
    }


def released_text(loader: MigrationLoader, version: str) -> str:
    """The same file for a release that is being made now."""
    rows = [f"{label} {name} {_digest(one)}" for (label, name), one in sorted(_ours(loader))]
    return "\n".join(
        [f"# The migrations of release {version}: manage.py check_migrations", *rows, ""]
    )


def check() -> list[Finding]:
    """All that the migrations since the newest release may not do. Asks no database."""
    loader = MigrationLoader(None)
    released = released_read()
    findings = [
        Finding(migration=f"{key[0]}.{key[1]}", code="changed", what="its source has changed")
        for key, one in _ours(loader)
        if key in released and released[key] != _digest(one)
    ]
    state = ProjectState(real_apps=loader.unmigrated_apps)
    new: set[Any] = set()
    ours = dict(_ours(loader))
    for key in loader.graph._generate_plan(loader.graph.leaf_nodes(), at_end=True):
        migration = loader.graph.nodes[key]
        if key in ours and key not in released:
            findings += _without_reviewed(migration, _imports(migration))
            findings += migration_check(migration, state, new)
        else:
            state = migration.mutate_state(state, preserve=False)
    return findings


def migration_check(
    migration: migrations.Migration, state: ProjectState, new: set[Any]
) -> list[Finding]:
    """What one migration may not do to ``state``, which is moved on.

    ``new`` has the tables and the columns since the release; old code knows nothing of them.
    """
    findings: list[Finding] = []
    for operation in migration.operations:
        before = state.clone()
        operation.state_forwards(migration.app_label, state)
        found = _Look(migration.app_label, before, state, new).at(operation)
        where = f"{migration.app_label}.{migration.name}"
        findings += [Finding(migration=where, code=code, what=what) for code, what in found]
    return _without_reviewed(migration, findings)


class _Look:
    """One operation, between the state before and the state after it."""

    def __init__(
        self, label: str, before: ProjectState, after: ProjectState, new: set[Any]
    ) -> None:
        self._label = label
        self._before = before
        self._after = after
        self._new = new

    def at(self, operation: Operation) -> list[tuple[str, str]]:
        """Codes, and what was found."""
        what = operation.describe()
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            return self._separate(operation)
        return [(code, what) for code in self._codes(operation)]

    def _separate(self, operation: migrations.SeparateDatabaseAndState) -> list[tuple[str, str]]:
        found = [pair for one in operation.database_operations for pair in self.at(one)]
        for one in operation.state_operations:
            if isinstance(one, migrations.RemoveField):
                field = self._field(self._before, one.model_name, one.name)
                if not (field.null or field.has_db_default()):
                    found.append(("no_default", one.describe()))
        return found

    def _codes(self, operation: Operation) -> Iterator[str]:
        if isinstance(operation, migrations.CreateModel):
            self._new.add((self._label, operation.name_lower))
            return
        if isinstance(operation, _HARMLESS):
            return
        if isinstance(operation, (migrations.RunSQL, migrations.RunPython)):
            if not self._is_on_new_tables(operation.hints):
                yield "sql"
            return
        name = getattr(operation, "model_name_lower", getattr(operation, "name_lower", ""))
        if (self._label, name) in self._new:
            return
        rule = next((rule for kind, rule in _RULES.items() if isinstance(operation, kind)), None)
        yield from rule(self, operation) if rule is not None else ["sql"]

    def _is_on_new_tables(self, hints: Mapping[str, Any]) -> bool:
        tables = {self._after.models[key].options.get("db_table") or "_".join(key): key
                  for key in self._after.models}  # fmt: skip
        named = hints.get("tables", ())
        return bool(named) and all(tables.get(table) in self._new for table in named)

    def _field(self, state: ProjectState, model: str, name: str) -> Any:
        return state.apps.get_model(self._label, model)._meta.get_field(name)

    def _is_small(self, model: str) -> bool:
        return (self._label, model.lower()) in SMALL

    def _add_field(self, operation: migrations.AddField) -> Iterator[str]:
        field = self._field(self._after, operation.model_name, operation.name)
        self._new.add((self._label, operation.model_name_lower, operation.name))
        if field.many_to_many:
            return
        if not (field.null or field.has_db_default()):
            yield "no_default"
        if (field.unique or field.db_index) and not self._is_small(operation.model_name):
            yield "locks"

    def _alter_field(self, operation: migrations.AlterField) -> Iterator[str]:
        old = self._field(self._before, operation.model_name, operation.name)
        field = self._field(self._after, operation.model_name, operation.name)
        if old.column != field.column:
            yield "renames"
        if (old.null and not field.null) or (field.unique and not old.unique):
            yield "narrows"
        if not _is_wider(old.db_type(connection), field.db_type(connection)):
            yield "narrows"
        if old.has_db_default() and not field.has_db_default() and not field.null:
            yield "no_default"
        if field.db_index and not old.db_index and not old.unique:
            yield "locks"

    def _add_constraint(self, operation: migrations.AddConstraint) -> Iterator[str]:
        constraint = operation.constraint
        names = _columns(constraint)
        of_new = {n for n in names if (self._label, operation.model_name_lower, n) in self._new}
        if not names or names != of_new:
            yield "narrows"
        is_checked_later = isinstance(operation, postgres.AddConstraintNotValid)
        if not (is_checked_later or self._is_small(operation.model_name)):
            yield "locks"

    def _remove_constraint(self, operation: migrations.RemoveConstraint) -> Iterator[str]:
        model = self._before.models[self._label, operation.model_name_lower]
        if not isinstance(model.get_constraint_by_name(operation.name), models.CheckConstraint):
            yield "drops"

    def _index(self, operation: Any) -> Iterator[str]:
        if not self._is_small(operation.model_name):
            yield "locks"

    def _drops(self, operation: Operation) -> Iterator[str]:
        yield "drops"

    def _renames(self, operation: Operation) -> Iterator[str]:
        yield "renames"

    def _narrows(self, operation: Operation) -> Iterator[str]:
        yield "narrows"


_HARMLESS: tuple[type[Operation], ...] = (
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    migrations.AlterModelTableComment,
    migrations.RenameIndex,
    postgres.CreateExtension,
    postgres.AddIndexConcurrently,
    postgres.RemoveIndexConcurrently,
    postgres.ValidateConstraint,
)
_RULES: dict[Any, Any] = {
    migrations.AddField: _Look._add_field,
    migrations.AlterField: _Look._alter_field,
    migrations.RemoveField: _Look._drops,
    migrations.DeleteModel: _Look._drops,
    migrations.RenameField: _Look._renames,
    migrations.RenameModel: _Look._renames,
    migrations.AlterModelTable: _Look._renames,
    migrations.AddIndex: _Look._index,
    migrations.RemoveIndex: _Look._index,
    migrations.AddConstraint: _Look._add_constraint,
    migrations.RemoveConstraint: _Look._remove_constraint,
    migrations.AlterUniqueTogether: _Look._narrows,
}


def _is_wider(old: str | None, new: str | None) -> bool:
    """Whether all that fits the old type fits the new one, without writing the table anew."""
    if old == new or ((old or "").startswith("varchar") and new in {"text", "varchar"}):
        return True
    lengths = [text.removeprefix("varchar(").rstrip(")") for text in (old or "", new or "")]
    return all(length.isdigit() for length in lengths) and int(lengths[0]) <= int(lengths[1])


def _columns(constraint: Any) -> set[str]:
    """The columns that a constraint speaks of; none when that cannot be told."""
    condition = getattr(constraint, "condition", None)
    names = set(getattr(constraint, "fields", ()))
    if condition is not None:
        names |= {name.split("__")[0] for name, _ in _leaves(condition)}
    return set() if getattr(constraint, "expressions", ()) else names


def _leaves(condition: Any) -> Iterator[tuple[str, Any]]:
    for child in condition.children:
        if isinstance(child, models.Q):
            yield from _leaves(child)
        else:
            yield child


def _without_reviewed(migration: migrations.Migration, findings: list[Finding]) -> list[Finding]:
    reviewed: Mapping[str, str] = getattr(migration, "reviewed", {})
    return [one for one in findings if len(reviewed.get(one.code, "")) < REASON_CHARACTERS]


def models_imported(source: str) -> list[str]:
    """The imports of a migration's source that take the models' code instead of writing it out."""
    return [
        name
        for node in ast.walk(ast.parse(source))
        for name in _imported(node)
        if "models" in name.split(".") and name.split(".")[0] != "django"
    ]


def _imports(migration: migrations.Migration) -> list[Finding]:
    where = f"{migration.app_label}.{migration.name}"
    source = inspect.getsource(sys.modules[type(migration).__module__])
    return [
        Finding(migration=where, code="imports", what=f"imports {name}")
        for name in models_imported(source)
    ]


def _imported(node: ast.AST) -> Iterator[str]:
    """What a statement imports, in full: the module, and what is taken from it."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        module = "." * node.level + (f"{node.module}." if node.module else "")
        yield from (f"{module}{alias.name}" for alias in node.names)


def _ours(loader: MigrationLoader) -> list[tuple[tuple[str, str], migrations.Migration]]:
    """The migrations of the product's own rooms."""
    own = {
        config.label
        for config in apps.get_app_configs()
        if Path(config.path).is_relative_to(settings.BASE_DIR)
        and ".venv" not in Path(config.path).relative_to(settings.BASE_DIR).parts
    }
    return [(key, one) for key, one in loader.disk_migrations.items() if key[0] in own]


def _digest(migration: migrations.Migration) -> str:
    source = inspect.getsource(sys.modules[type(migration).__module__])
    return hashlib.sha256(source.encode()).hexdigest()[:16]

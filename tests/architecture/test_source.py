"""Rules of the house that only the source can show."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from django.apps import apps
from django.db import models

from boxoffice.common import crash
from boxoffice.config.devstack.environment import CHECKOUT

ROOMS = ("boxoffice", "approvals", "tools", "agents")
STATUS = {"state", "status"}
# Who may use whom: a room reaches only rooms of a smaller number.
LEVELS = {
    "agents": 5,
    "tools": 4,
    "approvals": 3,
    "ticketing": 3,
    "billing": 3,
    "audit": 2,
    "acquirer": 2,
    "tenancy": 1,
}


def sources() -> Iterator[tuple[Path, ast.Module]]:
    for room in ROOMS:
        for path in sorted((CHECKOUT / room).rglob("*.py")):
            if "migrations" not in path.parts:
                yield path.relative_to(CHECKOUT), ast.parse(path.read_text())


def status_names() -> set[str]:
    return {
        name
        for model in apps.get_models()
        if model._meta.app_label in LEVELS
        for field in model._meta.concrete_fields
        if field.name in STATUS and field.choices
        for name in (field.name,)
    }


def written_attributes(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every ``x.state = …``, whatever the form of the assignment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if getattr(node.value, "id", "") != "self":  # of an object that is no row, see below
                yield node.lineno, node.attr
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
            name = node.args[1] if len(node.args) > 1 else None
            if isinstance(name, ast.Constant):
                yield node.lineno, str(name.value)


def updated_columns(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every column that an ``update``-like call names."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr in {"update", "aupdate"}:
            yield from ((node.lineno, keyword.arg or "") for keyword in node.keywords)
        elif node.func.attr in {"bulk_update", "abulk_update", "save", "asave"}:
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield node.lineno, part.value


def test_only_transitions_write_a_status() -> None:
    assert status_names() == STATUS
    offences = [
        f"{path}:{line} writes {name}"
        for path, tree in sources()
        if path != Path("boxoffice/common/transitions.py")
        for line, name in (*written_attributes(tree), *updated_columns(tree))
        if name in STATUS
    ]
    assert offences == []


def test_no_model_writes_its_own_status() -> None:
    offences = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        if "models" in path.parts or path.name == "models.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        if node.attr in STATUS
    ]
    assert offences == []


def test_no_statement_of_the_source_writes_a_status() -> None:
    written = re.compile(r"\bset\b(?:(?!\bwhere\b|\breturning\b).)*?\b(state|status)\"?\s*=", re.S)
    offences = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"\bupdate\b", node.value.lower()) and written.search(node.value.lower())
    ]
    assert offences == []
    assert written.search("update t set a = 1, state = 'x' where b = 2")
    assert not written.search("update t set a = 1 where state = 'x'")


def test_imports_go_one_way() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_foreign_keys_go_one_way_too() -> None:
    offences = [
        f"{model._meta.label}.{field.name} -> {field.related_model._meta.label}"
        for model in apps.get_models()
        if model._meta.app_label in LEVELS
        for field in model._meta.get_fields()
        if isinstance(field, models.ForeignKey | models.ManyToManyField)
        for there in [field.related_model._meta.app_label]
        if there in LEVELS
        and there != model._meta.app_label
        and LEVELS[there] >= LEVELS[model._meta.app_label]
    ]
    assert offences == []


def test_a_replay_has_no_way_to_an_effect() -> None:
    """Nothing that walks through a run again can reach dispatch, the one path to an effect."""
    offences = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        if path.parts[:2] == ("agents", "replay")
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (getattr(node, "module", ""), *(alias.name for alias in node.names))
        if "dispatch" in (name or "") or "ticketing" in (name or "")
    ]
    assert offences == []


def test_every_room_has_its_level() -> None:
    own = {config.label for config in apps.get_app_configs() if config.name.split(".")[0] in ROOMS}
    assert own == set(LEVELS)


def test_nothing_is_imported_inside_a_function() -> None:
    offences = [
        f"{path}:{part.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for part in ast.walk(node)
        if isinstance(part, ast.Import | ast.ImportFrom)
    ]
    assert offences == []


def test_no_module_is_a_drawer() -> None:
    drawers = {"utils.py", "helpers.py", "misc.py", "common.py"}
    assert [str(path) for path, _ in sources() if path.name in drawers] == []


def test_scopes_are_opened_by_name() -> None:
    """Nobody takes the variable itself that says which tenant is open."""
    offences = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "boxoffice.tenancy.scope"
        if any(alias.name.startswith("_") for alias in node.names)
    ]
    assert offences == []


def test_crash_points_stand_at_the_places_that_are_listed() -> None:
    """Each by a literal name, and each name in use: a walk over ``POINTS`` misses none."""
    names = [
        node.args[0].value if isinstance(node.args[0], ast.Constant) else f"{path}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "point"
        and getattr(node.func.value, "id", "") == "crash"
    ]
    assert sorted(names) == sorted(crash.POINTS)


def test_crash_points_are_reached_by_their_module_only() -> None:
    """Nobody imports the function itself, past the list above."""
    offences = [
        f"{path}:{node.lineno}"
        for path, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "boxoffice.common.crash"
    ]
    assert offences == []

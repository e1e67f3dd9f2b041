"""Rules of the project as a whole."""

import os
import re
import secrets
import subprocess
import sys

import pytest
from django.core.management import call_command

from boxoffice.config.devstack.environment import CHECKOUT


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def test_a_deployment_has_no_warnings() -> None:
    environ = {**os.environ, "DEBUG": "0", "SECRET_KEY": secrets.token_urlsafe(48)}
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        cwd=CHECKOUT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_without_a_secret_key_a_deployment_does_not_start() -> None:
    environ = {name: value for name, value in os.environ.items() if name != "SECRET_KEY"}
    done = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=CHECKOUT,
        env={**environ, "DEBUG": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "SECRET_KEY must be set" in done.stderr


def test_the_lock_names_no_machine_and_hashes_everything() -> None:
    lock = (CHECKOUT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "file:" not in lock
    pinned = re.findall(r"^\S+==\S+.*$", lock, re.MULTILINE)
    assert len(pinned) > 50
    assert all(line.endswith("\\") for line in pinned)

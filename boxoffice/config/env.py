"""Typed readers of environment variables that fail loudly."""

import os
from typing import Any

import psycopg
from django.core.exceptions import ImproperlyConfigured
from psycopg.conninfo import conninfo_to_dict

# Seconds for which a request waits for a connection, and the pool for a server that is away before
# it begins anew: left alone, it tries again ever more seldom, long after the server is back.
PATIENCE = {"timeout": 5, "reconnect_timeout": 3}


def text(name: str, default: str = "") -> str:
    """A string; empty counts as unset."""
    return os.environ.get(name) or default


def boolean(name: str, *, default: bool) -> bool:
    """``1 true yes on`` / ``0 false no off``."""
    value = os.environ.get(name, "").strip().lower()
    if not value:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name} must be 1 or 0, not {value!r}.")


def integer(name: str, default: int) -> int:
    """A whole number."""
    value = os.environ.get(name, "").strip()
    if not value:
        return default
    try:
        return int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {value!r}.") from None


def words(name: str, default: str = "") -> list[str]:
    """A comma-separated list."""
    return [word.strip() for word in text(name, default).split(",") if word.strip()]


def choices(name: str, defaults: dict[str, str], *, allowed: tuple[str, ...]) -> dict[str, str]:
    """``key=value`` pairs over the defaults: known keys and allowed values only."""
    chosen = dict(defaults)
    for pair in words(name):
        key, _, value = pair.partition("=")
        if key not in defaults or value not in allowed:
            known = f"{' | '.join(defaults)} = {' | '.join(allowed)}"
            raise ImproperlyConfigured(f"{name}: {pair!r} is not one of {known}.")
        chosen[key] = value
    return chosen


def database(name: str, *, engine: str, role: str, pool_size: int) -> dict[str, Any]:
    """A PostgreSQL URL as Django's settings; every connection assumes the application role."""
    url = text(name, "postgresql:///boxoffice")
    try:
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL URL: {error}") from None
    known = {key: str(parts.pop(key, "") or "") for key in ("dbname", "user", "password")}
    host, port = str(parts.pop("host", "") or ""), str(parts.pop("port", "") or "")
    return {
        "ENGINE": engine,
        "NAME": known["dbname"],
        "USER": known["user"],
        "PASSWORD": known["password"],
        "HOST": host,
        "PORT": port,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            "connect_timeout": 3,
            **parts,
            "assume_role": role,
            "pool": {"min_size": 0, "max_size": pool_size, **PATIENCE},
        },
    }

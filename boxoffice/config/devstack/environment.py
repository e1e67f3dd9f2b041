"""What `make run` reads from the environment, and what it hands on to the site's processes."""

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from boxoffice.config.devstack.process import DevstackError

CHECKOUT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The choices of the person at the console. `database_url` and `redis_url` are None when the
    embedded server is wanted."""

    home: Path
    host: str
    port: int
    database_url: str | None
    redis_url: str | None
    broker_url: str | None
    has_model_key: bool

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Read the environment; empty counts as unset.

        Raises:
            DevstackError: PORT is no port.
        """
        return cls(
            home=Path(environ.get("BOXOFFICE_HOME") or CHECKOUT / ".boxoffice"),
            host=environ.get("HOST") or "127.0.0.1",
            port=_port(environ.get("PORT") or "8000"),
            database_url=environ.get("DATABASE_URL") or None,
            redis_url=environ.get("REDIS_URL") or None,
            broker_url=environ.get("CELERY_BROKER_URL") or None,
            has_model_key=bool(environ.get("ANTHROPIC_API_KEY")),
        )

    @property
    def origin(self) -> str:
        """The address at which this machine reaches the site."""
        anywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
        host = anywhere.get(self.host, f"[{self.host}]" if ":" in self.host else self.host)
        return f"http://{host}:{self.port}"


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65_535:
        raise DevstackError(f"PORT must be a number from 1 to 65535, not {text!r}.")
    return int(text)


def check_port(host: str, port: int) -> None:
    """Make sure that the site can listen there.

    Raises:
        DevstackError: the port is taken, or is not ours to take.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise DevstackError(
                f"Port {port} of {host} cannot be used ({error.strerror}): "
                f"stop what listens there, or choose another with PORT={port + 1} make run."
            ) from error


def site_environment(
    options: Options, *, home: Path, database_url: str, redis_url: str
) -> dict[str, str]:
    """Return the environment of the site's processes.

    The secret key is made once per home, so that sessions live through a restart.
    """
    environ = dict(os.environ)
    environ.setdefault("DEBUG", "1")
    environ.update(
        BOXOFFICE_HOME=str(home),
        PORT=str(options.port),
        DATABASE_URL=database_url,
        REDIS_URL=redis_url,
        CELERY_BROKER_URL=options.broker_url or redis_url,
        SECRET_KEY=os.environ.get("SECRET_KEY") or _secret_key(home),
        DJANGO_SETTINGS_MODULE="boxoffice.config.settings",
        PYTHONUNBUFFERED="1",
    )
    return environ


def _secret_key(home: Path) -> str:
    path = home / "secret_key"
    if not path.exists():
        unfinished = path.with_suffix(".new")
        unfinished.unlink(missing_ok=True)
        unfinished.touch(mode=0o600)
        unfinished.write_text(secrets.token_urlsafe(48))
        unfinished.rename(path)
    return path.read_text()

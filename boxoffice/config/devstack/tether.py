"""Run a command that the kernel ends when the process that started it dies.

Started as a script of its own (`python -I -S tether.py PARENT SIGNAL UID GID COMMAND...`) because
code between fork and exec is unsafe in a process with threads. UID and GID are `-` to stay who we
are, SIGNAL is 0 for a command that may outlive its parent. It imports nothing of the project, so
that it works for any folder and any user.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become COMMAND, tied to PARENT; exit with 1 when PARENT is gone already."""
    parent, signum, uid, gid, *command = arguments
    if uid != "-":
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    # After the change of user, which would reset it.
    if sys.platform == "linux" and int(signum):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signum), 0, 0, 0)
        if os.getppid() != int(parent):
            sys.exit(1)
    # Python ignores these two; a command expects them as the system has them.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execvp(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(sys.argv[1:])

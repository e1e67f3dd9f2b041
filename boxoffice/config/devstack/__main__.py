"""`python -m boxoffice.config.devstack`: what `make run` calls."""

import argparse
import ctypes
import os
import signal
import sys

from boxoffice.config.devstack.console import Console
from boxoffice.config.devstack.process import DevstackError
from boxoffice.config.devstack.supervisor import supervise
from boxoffice.config.devstack.tether import PR_SET_PDEATHSIG

EXIT_CANNOT_START = 2

DESCRIPTION = """\
Start PostgreSQL, Valkey, the site, two workers and the scheduler; Ctrl-C ends them all.

Environment: PORT (8000), HOST (127.0.0.1), BOXOFFICE_HOME (.boxoffice), DATABASE_URL, REDIS_URL,
CELERY_BROKER_URL (with one of them set, that embedded server is not started), ANTHROPIC_API_KEY.
"""
EXAMPLE = "example: PORT=9000 BOXOFFICE_HOME=/tmp/box python -m boxoffice.config.devstack"


def main() -> int:
    """Run the stack; 0 when somebody stopped it, 2 when it could not start."""
    parser = argparse.ArgumentParser(
        prog="python -m boxoffice.config.devstack",
        description=DESCRIPTION,
        epilog=EXAMPLE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--tied", action="store_true", help="end when the parent process ends")
    if parser.parse_args().tied and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    try:
        supervise(os.environ, Console())
    except DevstackError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CANNOT_START
    return 0


if __name__ == "__main__":
    sys.exit(main())

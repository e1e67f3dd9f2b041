"""The command line: servers once, then each figure in a process of its own."""

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping

from benchmarks.servers import CHECKOUT, servers
from benchmarks.sizes import SIZES
from benchmarks.table import Figure

FIGURES = {
    "step": "time and statements of one durable step with a model that takes no time",
    "guard": "what the guard costs per call, with 1, 50 and 500 rules in force",
    "limits": "token buckets and circuit of a call, alone and with 200 callers at once",
    "storage": "bytes that a step leaves in the database, at 10, 40 and 160 steps",
    "stream": "from the model's first byte to the browser's frame; 100 x 50 tokens/s to the page",
    "crowd": "300 runs at once: wall time, worker CPU and memory, database connections",
    "fairness": "a fan's first token while another tenant has 500 runs queued, and without",
    "soak": "thousands of steps on end: memory, growth of the tables, drift of a step's time",
}
EXAMPLES = """\
examples:
  python -m benchmarks                    all figures, full size (about three minutes)
  python -m benchmarks --quick step       one figure, fewer repetitions
  python -m benchmarks soak --steps 100000  as long as it takes (about twenty minutes)
  python -m benchmarks --json > bench.json
"""
EXIT_FAILED = 1


def main() -> int:
    """Measure and print; 1 when a figure could not be measured."""
    options = _parser().parse_args()
    size = "quick" if options.quick else options.size
    figures = []
    with servers() as environ:
        for name in options.figures or FIGURES:
            figure = _measure(name, size, environ, options.steps)
            if figure is None:
                sys.stderr.write(f"{name} could not be measured.\n")
                return EXIT_FAILED
            figures.append(figure)
            if not options.json:
                print(figure.as_text(), end="\n\n", flush=True)
    if options.json:
        print(json.dumps([figure.as_data() for figure in figures], indent=2))
    return 0


def _parser() -> argparse.ArgumentParser:
    names = "\n".join(f"  {name:<8} {text}" for name, text in FIGURES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=f"Measure on servers started for this alone, and print tables.\n\n{names}",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figures", nargs="*", metavar="figure", choices=[[], *FIGURES], default=[])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--size", choices=SIZES, default="full", help="how much to measure")
    parser.add_argument("--steps", type=_steps, metavar="N", help="how many steps soak takes")
    parser.add_argument("--json", action="store_true", help="JSON on stdout instead of tables")
    return parser


def _steps(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _measure(name: str, size: str, environ: Mapping[str, str], steps: int | None) -> Figure | None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", name, size, *([str(steps)] if steps else [])],
        cwd=CHECKOUT,
        env=environ,
        stdout=subprocess.PIPE,
        check=False,
    )
    return None if done.returncode else Figure.from_data(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())

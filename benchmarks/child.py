"""`python -m benchmarks.child FIGURE SIZE [STEPS]`: measure one figure, and print it as JSON.

A process of its own for each figure: what one leaves behind in memory slows down no other.
"""

import json
import sys
from dataclasses import replace
from importlib import import_module

import django

from benchmarks.sizes import SIZES


def main(arguments: list[str]) -> None:
    """Set Django up, then load the figure by its name: its imports need the apps."""
    name, size, *steps = arguments
    amounts = replace(SIZES[size], soak_steps=int(steps[0])) if steps else SIZES[size]
    django.setup()
    figure = import_module(f"benchmarks.figures.{name}").measure(amounts)
    print(json.dumps(figure.as_data()))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Figures of the product on real servers: `python -m benchmarks`. Not tests: nothing asserts time."""

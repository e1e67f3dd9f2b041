"""Figures of the product on real servers: `python -m benchmarks`; nothing here is a test."""

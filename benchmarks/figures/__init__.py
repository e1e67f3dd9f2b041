"""One module per figure, each with ``measure(size) -> Figure``."""

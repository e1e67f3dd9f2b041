"""Runs that are over, walked through again: without effects, or as the beginning of a new run.

Nothing in here but `fork` makes rows that a worker acts on, and nothing in here imports
`tools.dispatch`: a replay has no way to an effect. `tests/architecture` holds that.
"""

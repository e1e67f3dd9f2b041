"""What the tests of the agents share."""

from tests.support.cast import arena, teatro
from tests.support.worker import handed_out, model, worker

__all__ = ["arena", "handed_out", "model", "teatro", "worker"]

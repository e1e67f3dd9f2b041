"""What the fault tests share: the cast, and a scripted model that child processes reach."""

from tests.support.cast import arena, teatro
from tests.support.worker import model

__all__ = ["arena", "model", "teatro"]

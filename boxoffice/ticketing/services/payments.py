"""The port to whoever moves the money, and the demo's provider."""

from dataclasses import dataclass
from typing import Protocol, cast

from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from boxoffice.ticketing.exceptions import PaymentDeclined


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """Money taken, as the provider names it."""

    provider: str
    provider_id: str
    amount_minor: int


class PaymentProvider(Protocol):
    """Moves money. Both calls are idempotent by ``reference``: a repeat moves nothing.

    Amounts are centavos. ``charge`` raises ``PaymentDeclined``. Both run while the order's
    transaction is open: an answer that never arrived is asked for again with the same reference.
    """

    name: str

    def charge(self, *, reference: str, amount_minor: int, description: str) -> Charge:
        """Take the money."""
        ...

    def refund(self, *, reference: str, provider_id: str, amount_minor: int) -> None:
        """Give the money of a charge back."""
        ...


class DemoProvider:
    """Accepts every payment and moves nothing. The demo's money is not real."""

    name = "demo"

    def charge(self, *, reference: str, amount_minor: int, description: str) -> Charge:
        """Take nothing, and say so politely."""
        if amount_minor < 0:
            raise PaymentDeclined(_("The payment was declined."))
        return Charge(
            provider=self.name, provider_id=f"demo-{reference}"[:200], amount_minor=amount_minor
        )

    def refund(self, *, reference: str, provider_id: str, amount_minor: int) -> None:
        """Give nothing back."""


def payment_provider() -> PaymentProvider:
    """The provider that ``PAYMENT_PROVIDER`` names (a dotted path to a class)."""
    return cast(PaymentProvider, import_string(settings.PAYMENT_PROVIDER)())

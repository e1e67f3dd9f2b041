"""The port to whoever moves the money, and the HTTP client that speaks to them.

Nothing here touches the database: it is called while no transaction is open.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol, cast
from urllib.parse import quote, urlsplit

import aiohttp
from django.conf import settings
from django.utils.module_loading import import_string
from django.utils.translation import gettext as _

from boxoffice.acquirer.book import TableBook
from boxoffice.acquirer.server import KEY, serving
from boxoffice.common.exceptions import NotSent, OutcomeLost, retry_after
from boxoffice.common.types import JsonObject
from boxoffice.ticketing.exceptions import PaymentDeclined, PaymentRefused

DEMO = "demo"
CONNECT_SECONDS = 3.0
CURRENCY = "BRL"
# Refusals that surely mean that nothing was done, and that the same request may be made again.
_COME_BACK = frozenset({425, 429})
# Refusals that surely mean that nothing was done, and never will be. All other answers to a
# movement leave it open: 408 and 409 too come while the same key is at work.
_REFUSED = frozenset({400, 401, 403, 404, 405, 410, 413, 415, 422})
# What a receipt may say besides, and is then held to.
_NAMED = ("key", "currency", "charge")


class PaymentProvider(Protocol):
    """Moves money. ``key`` names a movement for good: a repeat moves nothing.

    Amounts are centavos. All return a receipt, ``{"provider_id", "amount_minor"}`` and what the
    provider says of ``key``, ``currency`` and ``charge``; ``receipt_match`` holds it against what
    was asked for. They raise ``PaymentDeclined`` or ``PaymentRefused`` when the money surely was
    not moved and will not be, ``NotSent`` when the provider surely never got the request, and
    ``OutcomeLost`` when nobody knows. How long they may take is their caller's business.
    """

    name: str

    async def charge(self, *, key: str, amount_minor: int, description: str) -> JsonObject:
        """Take the money."""
        ...

    async def refund(self, *, key: str, charge_key: str, amount_minor: int) -> JsonObject:
        """Give the money of a charge back."""
        ...

    async def lookup(self, *, key: str) -> JsonObject | None:
        """The receipt of an earlier movement; ``None`` if there is none by that key."""
        ...


class HttpProvider:
    """The provider at ``PAYMENT_URL``, or the demo's, which is started for each request."""

    @property
    def name(self) -> str:
        """What people know it by."""
        return urlsplit(settings.PAYMENT_URL).hostname or DEMO

    async def charge(self, *, key: str, amount_minor: int, description: str) -> JsonObject:
        """Take the money."""
        body = {"amount_minor": amount_minor, "currency": CURRENCY, "description": description}
        return await self._move("/v1/charges", key, body)

    async def refund(self, *, key: str, charge_key: str, amount_minor: int) -> JsonObject:
        """Give the money of a charge back."""
        return await self._move(
            "/v1/refunds",
            key,
            {"amount_minor": amount_minor, "currency": CURRENCY, "charge": charge_key},
        )

    async def lookup(self, *, key: str) -> JsonObject | None:
        """The receipt of an earlier movement."""
        status, data = await self._ask("GET", f"/v1/movements/{quote(key, safe='')}")
        if status == 404:
            return None
        if status not in (200, 402):  # that we may not ask says nothing of the money
            raise OutcomeLost(f"the provider said {status}")
        return _receipt(status, data)

    async def _move(self, path: str, key: str, body: JsonObject) -> JsonObject:
        status, data = await self._ask("POST", path, body=body, headers={KEY: key})
        return _receipt(status, data)

    async def _ask(
        self,
        method: str,
        path: str,
        *,
        body: JsonObject | None = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        limit = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS)
        allowed = {"Authorization": f"Bearer {settings.PAYMENT_API_KEY}"} | (headers or {})
        try:
            async with _address() as url, aiohttp.ClientSession(timeout=limit) as session:
                asked = session.request(
                    method, f"{url}{path}", json=body, headers=allowed, allow_redirects=False
                )
                async with asked as answer:
                    if answer.status in _COME_BACK:
                        said = answer.headers.get("Retry-After", "")
                        raise NotSent(
                            f"the provider said {answer.status}", retry_after=retry_after(said)
                        )
                    return answer.status, await answer.json(content_type=None)
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(type(error).__name__) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutcomeLost(f"{type(error).__name__}: {error}") from error


@asynccontextmanager
async def _address() -> AsyncIterator[str]:
    if settings.PAYMENT_URL:
        yield settings.PAYMENT_URL.rstrip("/")
        return
    async with serving(TableBook()) as url:
        yield url


def _receipt(status: int, data: Any) -> JsonObject:
    if not isinstance(data, dict):
        raise OutcomeLost(f"the provider said {status} and no JSON object")
    if status == 402:
        if data.get("reason", "declined") == "declined":
            raise PaymentDeclined(_("The payment was declined."))
        raise _refused(data.get("reason"))
    if status in _REFUSED:
        raise _refused(data.get("error"))
    amount, movement = data.get("amount_minor"), data.get("id")
    if status != 200 or data.get("status") != "done" or not _is_whole(amount):
        raise OutcomeLost(f"the provider said {status}")
    said = {name: data[name] for name in _NAMED if isinstance(data.get(name), str) and data[name]}
    return {"provider_id": str(movement)[:200], "amount_minor": amount, **said}


def _refused(why: Any) -> PaymentRefused:
    return PaymentRefused(_("The payment provider refused this: %s.") % str(why)[:200])


def _is_whole(amount: Any) -> bool:
    return isinstance(amount, int) and not isinstance(amount, bool)


def receipt_match(
    receipt: JsonObject, *, key: str, amount_minor: int, charge_key: str = ""
) -> JsonObject:
    """The receipt, if it is for what was asked for: a charge, or the refund of ``charge_key``.

    Raises ``OutcomeLost`` when it is for something else: money may have moved, and a person has to
    look at how much. What a provider does not say is not missed, but for the amount.
    """
    said = {"key": key, "currency": CURRENCY, "charge": charge_key} | receipt
    wanted = {"amount_minor": amount_minor, "key": key, "currency": CURRENCY, "charge": charge_key}
    for name, value in wanted.items():
        if said.get(name) != value:
            raise OutcomeLost(
                f"the receipt is for another {name}: {said.get(name)!s:.80}, not {value}"
            )
    return receipt


def payment_provider() -> PaymentProvider:
    """The provider that ``PAYMENT_PROVIDER`` names (a dotted path to a class)."""
    return cast(PaymentProvider, import_string(settings.PAYMENT_PROVIDER)())

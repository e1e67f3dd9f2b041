"""WebSockets: their tenant and principal, by the same rules as for a request, and word to them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import async_to_sync
from channels.auth import get_user
from channels.db import database_sync_to_async
from channels.layers import get_channel_layer
from django.contrib.auth.models import AnonymousUser
from redis import RedisError

from boxoffice.common.exceptions import BoxOfficeError
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.away import AWAY
from boxoffice.tenancy.middleware import VISITOR_KEY, tenant_from
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.principals import Principal, principal_for, token_user

logger = logging.getLogger(__name__)

TRY_AGAIN_LATER = 1013
TELL_SECONDS = 2.0

type Scope = dict[str, Any]
type Receive = Callable[[], Awaitable[dict[str, Any]]]
type Send = Callable[[dict[str, Any]], Awaitable[None]]


class TenantSocketMiddleware:
    """Sets ``scope["tenant"]`` and ``scope["principal"]``, and strips the tenant's prefix.

    A handshake for an unknown tenant, by a non-member or with a bad token is refused (403), and so
    is any while the database is away: the page tries again.
    """

    def __init__(self, inner: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        self.inner = inner

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the socket, or refuse the handshake."""
        headers = {key.lower(): value.decode("latin-1") for key, value in scope["headers"]}
        try:
            user = await get_user(scope)
            tenant, principal, prefix = await database_sync_to_async(_resolve)(
                path=scope["path"],
                host=headers.get(b"host", ""),
                authorization=headers.get(b"authorization", ""),
                user=user,
                visitor=scope["session"].get(VISITOR_KEY),
            )
        except BoxOfficeError:
            await send({"type": "websocket.close", "code": 4404})
            return
        except AWAY as error:
            logger.warning("%s: the database is away: %s", scope["path"], error)
            await send({"type": "websocket.close", "code": TRY_AGAIN_LATER})
            return
        path = scope["path"][len(prefix) :]
        await self.inner(
            {**scope, "tenant": tenant, "principal": principal, "path": path}, receive, send
        )


def _resolve(
    *, path: str, host: str, authorization: str, user: Any, visitor: str | None
) -> tuple[Tenant, Principal, str]:
    tenant, prefix = tenant_from(path=path, host=host)
    if tenant is None:
        raise BoxOfficeError("No tenant.")
    if authorization[:7].lower() == "bearer ":
        user = token_user(tenant=tenant, plain=authorization[7:].strip())
    known = user if isinstance(user, User) else AnonymousUser()
    return tenant, principal_for(tenant=tenant, user=known, visitor=visitor), prefix


def group_tell(group: str, notice: JsonObject) -> None:
    """Send word to all open pages of a group, after a commit; ``notice["type"]`` names the handler.

    Losing one loses nothing: the pages look again by themselves. So nothing is raised when the
    channel layer is away, and ``TELL_SECONDS`` is all that it may take.
    """
    try:
        async_to_sync(_tell)(group, notice)
    except (RedisError, OSError) as error:
        logger.warning("the pages of %s were not told: %s", group, type(error).__name__)


async def _tell(group: str, notice: JsonObject) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    async with asyncio.timeout(TELL_SECONDS):
        await layer.group_send(group, notice)

"""The socket that tells an open inbox to look again."""

from typing import Any
from uuid import UUID

from channels.generic.websocket import AsyncJsonWebsocketConsumer

from boxoffice.tenancy.principals import Principal

FORBIDDEN = 4403


def inbox_group(tenant_id: UUID) -> str:
    """The channel-layer group of a tenant's open inboxes."""
    return f"approvals.{tenant_id}"


class InboxConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]
    """Says that a request has changed, never what it holds: the page asks for that itself."""

    group = ""

    async def connect(self) -> None:
        """Let reviewers in; the socket of anybody else is closed with 4403."""
        principal: Principal = self.scope["principal"]
        await self.accept()
        if not principal.may("review_actions"):
            await self.close(FORBIDDEN)
            return
        self.group = inbox_group(principal.tenant_id)
        await self.channel_layer.group_add(self.group, self.channel_name)
        await self.send_json({"type": "ready"})

    async def disconnect(self, code: int) -> None:
        """Leave the group."""
        if self.group:
            await self.channel_layer.group_discard(self.group, self.channel_name)

    async def receive(self, text_data: str | None = None, bytes_data: Any = None) -> None:
        """The page has nothing to say here; whatever comes is not read."""

    async def approval_changed(self, event: dict[str, Any]) -> None:
        """A request was made, counted, decided or settled."""
        await self.send_json(
            {"type": "changed", "approval": event["approval"], "state": event["state"]}
        )

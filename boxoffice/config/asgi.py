"""HTTP and WebSocket in one ASGI application."""

import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware, SessionMiddleware
from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "boxoffice.config.settings")

# Loads the apps, which everything imported below needs.
django_application = get_asgi_application()

from agents.routing import websocket_urlpatterns as agent_sockets  # noqa: E402
from approvals.routing import websocket_urlpatterns as approval_sockets  # noqa: E402
from boxoffice.tenancy.sockets import TenantSocketMiddleware  # noqa: E402

application = ProtocolTypeRouter(
    {
        "http": django_application,
        "websocket": AllowedHostsOriginValidator(
            CookieMiddleware(
                SessionMiddleware(
                    TenantSocketMiddleware(URLRouter([*agent_sockets, *approval_sockets]))
                )
            )
        ),
    }
)

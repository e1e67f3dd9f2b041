"""The console's own content policy."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils.csp import CSP

# Unfold's pages are built with Alpine.js, which evaluates attributes and sets styles.
CONSOLE_CSP = {
    "default-src": [CSP.SELF],
    "script-src": [CSP.SELF, CSP.UNSAFE_EVAL, CSP.UNSAFE_INLINE],
    "style-src": [CSP.SELF, CSP.UNSAFE_INLINE],
    "img-src": [CSP.SELF, "data:"],
    "font-src": [CSP.SELF],
    "connect-src": [CSP.SELF],
    "object-src": [CSP.NONE],
    "base-uri": [CSP.NONE],
    "form-action": [CSP.SELF],
    "frame-ancestors": [CSP.SELF],
}


class ConsolePolicyMiddleware:
    """Loosens the policy below `/admin/`, and nowhere else. Stands inside Django's own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request."""
        response = self.get_response(request)
        if request.path_info.startswith("/admin/"):
            response._csp_config = CONSOLE_CSP  # type: ignore[attr-defined]
        return response

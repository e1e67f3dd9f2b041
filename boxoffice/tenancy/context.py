"""What every template of a tenant knows."""

from typing import Any

from django.http import HttpRequest


def tenant(request: HttpRequest) -> dict[str, Any]:
    """``tenant`` and ``principal`` of the request, or ``None``."""
    return {
        "tenant": getattr(request, "tenant", None),
        "principal": getattr(request, "principal", None),
    }

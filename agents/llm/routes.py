"""Where a model call goes."""

from dataclasses import dataclass

from django.conf import settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One endpoint of the Messages API. ``base_url`` is empty for the demo model."""

    base_url: str
    api_key: str

    @property
    def is_demo(self) -> bool:
        """Whether the rules inside this process answer."""
        return not self.base_url


def route() -> Route:
    """The endpoint of every model call: the configured one, or the demo model without a key."""
    if not settings.ANTHROPIC_API_KEY:
        return Route(base_url="", api_key="demo")
    return Route(base_url=settings.ANTHROPIC_BASE_URL, api_key=settings.ANTHROPIC_API_KEY)


def is_demo() -> bool:
    """Whether answers come from the demo model; the pages say so."""
    return route().is_demo

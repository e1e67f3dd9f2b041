"""The desk's count in the navigation of every page."""

from django import template

from agents.selectors import handoffs
from boxoffice.tenancy.principals import Principal

register = template.Library()


@register.filter
def fans_waiting(principal: Principal) -> int:
    """How many conversations wait for a person; none for somebody who may not answer."""
    return handoffs().count() if principal.may("answer_fans") else 0

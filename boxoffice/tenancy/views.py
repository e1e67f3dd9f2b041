"""Pages outside any tenant."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from boxoffice.tenancy.models import Tenant


def home(request: HttpRequest) -> HttpResponse:
    """The tenants whose box office is open."""
    return render(request, "tenancy/home.html", {"tenants": Tenant.objects.filter(is_active=True)})

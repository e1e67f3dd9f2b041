"""Which tenant a request is for, and who is asking."""

import logging
import secrets
from collections.abc import Callable

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.http import Http404, HttpRequest, HttpResponse, HttpResponsePermanentRedirect
from django.template.loader import render_to_string
from django.urls import get_script_prefix, set_script_prefix
from guardian.shortcuts import get_objects_for_user

from boxoffice.common.exceptions import BoxOfficeError, NotFound
from boxoffice.tenancy.away import AWAY, RETRY_AFTER_SECONDS, database_away
from boxoffice.tenancy.models import Tenant, User
from boxoffice.tenancy.principals import Principal, principal_for, token_user
from boxoffice.tenancy.problems import problem_response
from boxoffice.tenancy.scope import operator_scope, tenant_scope, tenants_scope

logger = logging.getLogger(__name__)

PREFIX = "/t/"
VISITOR_KEY = "visitor"
type Handler = Callable[[HttpRequest], HttpResponse]


def tenant_from(*, path: str, host: str) -> tuple[Tenant | None, str]:
    """The tenant that a path or a host names, and the prefix to strip from the path.

    Raises ``NotFound`` when the path names a tenant that does not exist.
    """
    if path.startswith(PREFIX):
        slug = path[len(PREFIX) :].split("/", 1)[0]
        tenant = Tenant.objects.filter(slug=slug, is_active=True).first()
        if tenant is None:
            raise NotFound("No such page.")
        return tenant, f"{PREFIX}{slug}"
    name = host.rsplit(":", 1)[0].lower()
    return Tenant.objects.filter(host=name, is_active=True).first(), ""


class TenantPathMiddleware:
    """Takes the tenant from the path or the host, and hides the prefix from the URL patterns."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request with ``request.tenant`` set."""
        request.tenant = None  # type: ignore[attr-defined]
        request.principal = None  # type: ignore[attr-defined]
        path = request.path_info
        if path.startswith(PREFIX) and path.count("/") == 2 and len(path) > len(PREFIX):
            return HttpResponsePermanentRedirect(f"{request.path}/")
        if _outside(path):
            return self.get_response(request)
        try:
            tenant, prefix = tenant_from(path=path, host=request.get_host())
        except AWAY as error:
            return away_response(request, error)
        except NotFound as error:
            if "/api/" in path:
                return problem_response(error)
            return self.get_response(request)
        if tenant is None:
            return self.get_response(request)
        request.tenant = tenant  # type: ignore[attr-defined]
        request.urlconf = settings.TENANT_URLCONF
        request.path_info = path[len(prefix) :] or "/"
        outer = get_script_prefix()
        set_script_prefix(f"{outer.rstrip('/')}{prefix}/")
        try:
            return self.get_response(request)
        finally:
            set_script_prefix(outer)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        """The database went while a view was at work."""
        return away_response(request, exception) if isinstance(exception, AWAY) else None


def away_response(request: HttpRequest, error: Exception) -> HttpResponse:
    """503: problem details for a program; for a person, a page that asks again by itself."""
    logger.warning("%s %s: the database is away: %s", request.method, request.path, error)
    away = database_away()
    problem = problem_response(away)
    if "/api/" in request.path or "text/html" not in request.headers.get("Accept", ""):
        return problem
    page = render_to_string(
        "tenancy/away.html", {"seconds": RETRY_AFTER_SECONDS, "message": away.message}
    )
    headers = {name: problem[name] for name in ("Retry-After", "Cache-Control")}
    return HttpResponse(page, status=problem.status_code, headers=headers)


def _outside(path: str) -> bool:
    return path.startswith(("/admin/", "/static/", "/accounts/", "/i18n/")) or path in {
        "/livez",
        "/readyz",
        "/metrics",
        "/api/schema/",
    }


class PrincipalMiddleware:
    """Finds the principal, and opens the tenant's scope around the view."""

    def __init__(self, get_response: Handler) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request in its scope."""
        tenant: Tenant | None = request.tenant  # type: ignore[attr-defined]
        if tenant is None:
            try:
                return self._outside(request)
            except AWAY as error:
                return away_response(request, error)
        try:
            principal = self._principal(request, tenant)
        except AWAY as error:
            return away_response(request, error)
        except BoxOfficeError as error:
            if request.path_info.startswith("/api/") or error.status == 401:
                return problem_response(error)
            raise Http404(str(error)) from error
        request.principal = principal  # type: ignore[attr-defined]
        with tenant_scope(tenant.pk):
            return self.get_response(request)

    def _principal(self, request: HttpRequest, tenant: Tenant) -> Principal:
        header = request.headers.get("Authorization", "")
        request.has_token = header[:7].lower() == "bearer "  # type: ignore[attr-defined]
        if request.has_token:  # type: ignore[attr-defined]
            request.user = token_user(tenant=tenant, plain=header[7:].strip())
            return principal_for(tenant=tenant, user=request.user)
        if isinstance(request.user, User):
            return principal_for(tenant=tenant, user=request.user)
        visitor = request.session.get(VISITOR_KEY)
        if visitor is None:
            visitor = request.session[VISITOR_KEY] = secrets.token_hex(16)
        return principal_for(tenant=tenant, user=AnonymousUser(), visitor=visitor)

    def _outside(self, request: HttpRequest) -> HttpResponse:
        if not request.path_info.startswith("/admin/") or not isinstance(request.user, User):
            return self.get_response(request)
        if request.user.is_superuser:
            with operator_scope("platform operator in the console"):
                return self.get_response(request)
        held = get_objects_for_user(
            request.user, "tenancy.configure", klass=Tenant, accept_global_perms=False
        )
        with tenants_scope([tenant.pk for tenant in held], "tenant admin in the console"):
            return self.get_response(request)

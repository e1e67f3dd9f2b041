"""Word to the reviewers that something waits for them."""

from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import QuerySet
from django.template.loader import render_to_string
from django.utils import timezone, translation
from guardian.shortcuts import get_users_with_perms

from approvals.models import ApprovalRequest, Gate, State
from boxoffice.common.clock import now
from boxoffice.tenancy.models import Membership, Tenant, User
from boxoffice.tenancy.scope import operator_scope

OVERDUE = timedelta(minutes=2)
OVERDUE_BATCH = 100


def reviewers_notify(*, request_id: UUID) -> int:
    """E-mail the tenant's reviewers about a pending request. Returns how many were written to.

    Whoever asked is left out. Once every mail is out, ``notified_at`` says so and a repeat sends
    nothing; a crash before that means that some get a second mail, never none.
    """
    request = (
        ApprovalRequest.objects.select_related("tenant", "requested_for")
        .filter(pk=request_id, gate=Gate.REVIEWER, notified_at__isnull=True)
        .first()
    )
    if request is None or request.effective_state != State.PENDING:
        return 0
    reviewers = _reviewers(request.tenant, but=request.requested_for)
    for reviewer in reviewers:
        _mail(request, reviewer).send()
    ApprovalRequest.objects.filter(pk=request.pk).update(notified_at=now())
    return len(reviewers)


def overdue_notices() -> list[tuple[UUID, UUID]]:
    """(tenant, request) of pending requests whose mail has not gone out: its task was lost."""
    with operator_scope("lost notices of approval requests"):
        rows = ApprovalRequest.objects.filter(
            state=State.PENDING,
            gate=Gate.REVIEWER,
            notified_at__isnull=True,
            created_at__lt=now() - OVERDUE,
            expires_at__gt=now(),
        )
        return list(rows.order_by("id").values_list("tenant_id", "pk")[:OVERDUE_BATCH])


def request_url(request: ApprovalRequest) -> str:
    """The address of a request in the inbox, from outside."""
    return f"{settings.PUBLIC_URL.rstrip('/')}/t/{request.tenant.slug}/approvals/{request.pk}/"


def _reviewers(tenant: Tenant, *, but: User | None) -> list[User]:
    holders: QuerySet[User] = get_users_with_perms(  # type: ignore[assignment]
        tenant, only_with_perms_in=["review_actions"]
    )
    members = Membership.objects.filter(is_active=True).values("user_id")
    found = holders.filter(is_active=True, pk__in=members).exclude(email="").distinct()
    asker = (but.email if but else "").lower()
    return [user for user in found.order_by("pk") if user.email.lower() != asker]


def _mail(request: ApprovalRequest, reviewer: User) -> EmailMessage:
    tenant = request.tenant
    context = {"row": request, "tenant": tenant, "url": request_url(request)}
    language = reviewer.language or tenant.language
    with translation.override(language), timezone.override(tenant.time_zone):
        subject = render_to_string("approvals/mail/subject.txt", context)
        body = render_to_string("approvals/mail/body.txt", context)
    return EmailMessage(" ".join(subject.split()), body.strip() + "\n", to=[reviewer.email])

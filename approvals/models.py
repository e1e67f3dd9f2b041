"""A described action that waits for a human, and what humans said about it."""

from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from boxoffice.common.clock import now
from boxoffice.common.transitions import machine
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import TenantModel


class Gate(models.TextChoices):
    """Who decides."""

    FAN = "fan", _("the fan confirms")
    REVIEWER = "reviewer", _("a reviewer decides")


class State(models.TextChoices):
    """Where a request stands."""

    PENDING = "pending", _("pending")
    APPROVED = "approved", _("approved")
    EXECUTED = "executed", _("executed")
    FAILED = "failed", _("failed")
    UNKNOWN = "unknown", _("outcome unknown")
    DENIED = "denied", _("denied")
    EXPIRED = "expired", _("expired")
    WITHDRAWN = "withdrawn", _("withdrawn")


REQUEST_STATES = machine(
    "state",
    {
        State.PENDING: {State.APPROVED, State.DENIED, State.EXPIRED, State.WITHDRAWN},
        State.APPROVED: {State.EXECUTED, State.FAILED, State.UNKNOWN},
        State.EXECUTED: set(),
        State.FAILED: set(),
        State.UNKNOWN: set(),
        State.DENIED: set(),
        State.EXPIRED: set(),
        State.WITHDRAWN: set(),
    },
)


class ApprovalRequest(TenantModel):
    """An action that waits for its human. What it describes never changes once it is asked.

    ``preview`` is what the action's owner said it would change: ``before`` and ``after`` objects,
    ``undo`` (how to take it back, ``None`` when that cannot be), ``summary``. ``reference`` holds
    the asker's own names (``call``, ``run``, ``conversation``, ``step``, ``origin``), opaque here.
    """

    action = models.CharField(_("action"), max_length=128)
    arguments = models.JSONField(_("arguments"))
    edited_arguments = models.JSONField(_("edited arguments"), null=True, blank=True)
    gate = models.CharField(_("gate"), max_length=16, choices=Gate)
    quorum = models.PositiveSmallIntegerField(_("approvals needed"), default=1)
    state = models.CharField(_("state"), max_length=16, choices=State, default=State.PENDING)
    requested_for = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("requested for"),
    )
    requested_by_label = models.CharField(_("requested by"), max_length=200, blank=True, default="")
    risk = models.CharField(_("risk"), max_length=32, blank=True, default="")
    rule = models.CharField(_("rule"), max_length=200, blank=True, default="")
    reason = models.TextField(_("reason"), blank=True, default="")
    preview = models.JSONField(_("preview"), null=True, blank=True)
    edited_preview = models.JSONField(_("preview after the edit"), null=True, blank=True)
    binding_hash = models.CharField(_("binding hash"), max_length=128)
    reference = models.JSONField(_("reference"), default=dict)
    run_ref = models.UUIDField(_("run"), null=True, blank=True)
    conversation_ref = models.UUIDField(_("conversation"), null=True, blank=True)
    expires_at = models.DateTimeField(_("expires at"))
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    decided_at = models.DateTimeField(_("decided at"), null=True, blank=True)
    settled_at = models.DateTimeField(_("settled at"), null=True, blank=True)
    settled = models.JSONField(_("outcome"), null=True, blank=True)
    notified_at = models.DateTimeField(_("notified at"), null=True, blank=True)

    class Meta:
        verbose_name = _("approval request")
        verbose_name_plural = _("approval requests")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["tenant", "gate", "state", "-id"], name="approval_inbox"),
            models.Index(fields=["tenant", "requested_for", "-id"], name="approval_own"),
            models.Index(fields=["tenant", "run_ref"], name="approval_run"),
            models.Index(fields=["tenant", "conversation_ref"], name="approval_conversation"),
            models.Index(
                fields=["expires_at"], condition=Q(state="pending"), name="approval_pending_until"
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=State.values), name="approval_state_known"
            ),
            models.CheckConstraint(condition=Q(gate__in=Gate.values), name="approval_gate_known"),
            models.CheckConstraint(
                condition=Q(gate="reviewer") | Q(requested_for__isnull=False, quorum=1),
                name="approval_fan_gate_has_its_fan",
            ),
            models.CheckConstraint(condition=Q(quorum__gte=1), name="approval_quorum_positive"),
            models.CheckConstraint(
                condition=Q(state="pending", decided_at__isnull=True)
                | (~Q(state="pending") & Q(decided_at__isnull=False)),
                name="approval_decided_at_once_decided",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.pk}"

    @property
    def effective_arguments(self) -> JsonObject:
        """The arguments with which the action runs: the edited ones, if a reviewer edited."""
        chosen: Any = self.arguments if self.edited_arguments is None else self.edited_arguments
        return dict(chosen)

    @property
    def effective_preview(self) -> JsonObject | None:
        """The preview that belongs to ``effective_arguments``."""
        chosen: JsonObject | None = (
            self.preview if self.edited_arguments is None else self.edited_preview
        )
        return chosen

    @property
    def effective_state(self) -> State:
        """The state as a reader should see it: past its time, a pending request has expired."""
        if self.state == State.PENDING and self.expires_at <= now():
            return State.EXPIRED
        return State(self.state)


class Verb(models.TextChoices):
    """What a decision says."""

    APPROVE = "approve", _("approve")
    DENY = "deny", _("deny")
    WITHDRAW = "withdraw", _("withdraw")
    EXPIRE = "expire", _("expire")


class Decision(TenantModel):
    """One human's word on a request (or the clock's, without a user). Never changed.

    ``arguments`` are those that an approver put in place of the asked ones; ``None`` when the
    request was approved as it stood.
    """

    request = models.ForeignKey(ApprovalRequest, on_delete=models.PROTECT, related_name="decisions")
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
    )
    verb = models.CharField(_("decision"), max_length=16, choices=Verb)
    note = models.TextField(_("note"), blank=True, default="")
    arguments = models.JSONField(_("arguments"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("decision")
        verbose_name_plural = _("decisions")
        ordering = ["id"]
        indexes = [models.Index(fields=["tenant", "request"], name="decision_tenant_request")]
        constraints = [
            models.UniqueConstraint(
                fields=["request", "user"],
                condition=Q(verb="approve"),
                name="decision_approve_once",
            ),
            models.UniqueConstraint(
                fields=["request"],
                condition=~Q(verb="approve"),
                name="decision_one_end",
            ),
            models.CheckConstraint(condition=Q(verb__in=Verb.values), name="decision_verb_known"),
            models.CheckConstraint(
                condition=Q(verb="expire", user__isnull=True)
                | (~Q(verb="expire") & Q(user__isnull=False)),
                name="decision_has_its_human",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.request_id}"


class PolicyState(models.TextChoices):
    """Where a version of the rules stands."""

    DRAFT = "draft", _("draft")
    SHADOW = "shadow", _("in shadow")
    ACTIVE = "active", _("in force")
    RETIRED = "retired", _("retired")


POLICY_STATES = machine(
    "state",
    {
        PolicyState.DRAFT: {PolicyState.SHADOW, PolicyState.ACTIVE, PolicyState.RETIRED},
        PolicyState.SHADOW: {PolicyState.ACTIVE, PolicyState.RETIRED},
        PolicyState.ACTIVE: {PolicyState.RETIRED},
        PolicyState.RETIRED: set(),
    },
)


class PolicyVersion(TenantModel):
    """The rules of a tenant, all of them, as one version. Only a draft changes.

    ``source`` is the YAML as its author wrote it, ``rules`` what was read from it.
    """

    number = models.PositiveIntegerField(_("number"))
    state = models.CharField(
        _("state"), max_length=8, choices=PolicyState, default=PolicyState.DRAFT
    )
    source = models.TextField(_("rules"), blank=True)
    rules = models.JSONField(_("rules, as they are read"), default=list)
    note = models.CharField(_("note"), max_length=500, blank=True, default="")
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("author"),
    )
    copied_from = models.PositiveIntegerField(_("copy of"), null=True, blank=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)
    shadowed_at = models.DateTimeField(_("in shadow since"), null=True, blank=True)
    activated_at = models.DateTimeField(_("in force since"), null=True, blank=True)
    retired_at = models.DateTimeField(_("retired at"), null=True, blank=True)

    class Meta:
        verbose_name = _("policy version")
        verbose_name_plural = _("policy versions")
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "number"], name="policy_number_once"),
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(state="active"), name="policy_one_active"
            ),
            models.UniqueConstraint(
                fields=["tenant"], condition=Q(state="shadow"), name="policy_one_shadow"
            ),
            models.CheckConstraint(
                condition=Q(state__in=PolicyState.values), name="policy_state_known"
            ),
        ]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What verdicts store."""
        return f"policy:{self.number}"

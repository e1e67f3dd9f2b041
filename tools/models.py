"""The ledger of tool calls: one row for every call that a model proposed, allowed or not."""

from datetime import datetime

from django.conf import settings
from django.contrib.postgres.indexes import BrinIndex
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from approvals.models import ApprovalRequest
from approvals.policies.rules import Effect
from boxoffice.common.transitions import machine
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.models import TenantModel

__all__ = ["CALL_MACHINE", "CallState", "Effect", "RemoteEffect", "ToolCall"]


class CallState(models.TextChoices):
    """Where a call is."""

    PROPOSED = "proposed", _("proposed")
    DENIED = "denied", _("denied")
    GATED = "gated", _("waiting for a human")
    RUNNING = "running", _("running")
    SUCCEEDED = "succeeded", _("succeeded")
    FAILED = "failed", _("failed")
    UNKNOWN = "unknown", _("outcome unknown")
    COMPENSATED = "compensated", _("undone")


CALL_MACHINE = machine(
    "state",
    {
        # A local effect commits together with its result: nobody ever sees such a call running.
        CallState.PROPOSED: {
            CallState.DENIED,
            CallState.GATED,
            CallState.RUNNING,
            CallState.SUCCEEDED,
            CallState.FAILED,
        },
        CallState.GATED: {
            CallState.DENIED,
            CallState.RUNNING,
            CallState.SUCCEEDED,
            CallState.FAILED,
        },
        CallState.RUNNING: {CallState.SUCCEEDED, CallState.FAILED, CallState.UNKNOWN},
        CallState.UNKNOWN: {CallState.SUCCEEDED, CallState.FAILED},
        CallState.SUCCEEDED: {CallState.COMPENSATED},
        CallState.DENIED: set(),
        CallState.FAILED: set(),
        CallState.COMPENSATED: set(),
    },
)


VERDICT_COLUMNS = (
    "verdict",
    "reason_code",
    "policy_version",
    "policy_rule",
    "shadow_version",
    "shadow_verdict",
    "shadow_rule",
    "seen",
)


class ToolCall(TenantModel):
    """One proposed call. ``origin`` names who asked; no key points upward.

    ``undone_since`` is set by readers who have looked for it: since when it is to be, or has been,
    undone.
    """

    undone_since: datetime | None = None

    call_id = models.CharField(_("call id of the model"), max_length=128)
    origin = models.CharField(_("origin"), max_length=128)
    run_ref = models.UUIDField(_("run"), null=True)
    conversation_ref = models.UUIDField(_("conversation"), null=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        verbose_name=_("on behalf of"),
    )
    tool = models.CharField(_("tool"), max_length=128)
    tool_version = models.CharField(_("tool version"), max_length=16, blank=True, default="")
    arguments = models.JSONField(_("arguments"))
    args_hash = models.CharField(max_length=64)
    idempotency_key = models.CharField(_("idempotency key"), max_length=200)
    verdict = models.CharField(_("verdict"), max_length=8, choices=Effect, blank=True, default="")
    reason_code = models.CharField(_("reason code"), max_length=64, blank=True, default="")
    policy_version = models.CharField(_("policy version"), max_length=32, blank=True, default="")
    policy_rule = models.CharField(_("rule"), max_length=80, blank=True, default="", db_default="")
    # What a version in shadow would have said; it has no effect.
    shadow_version = models.CharField(
        _("version in shadow"), max_length=32, blank=True, default="", db_default=""
    )
    shadow_verdict = models.CharField(
        _("verdict in shadow"), max_length=8, choices=Effect, blank=True, default="", db_default=""
    )
    shadow_rule = models.CharField(
        _("rule in shadow"), max_length=80, blank=True, default="", db_default=""
    )
    # Whom the rules saw: tier, role, and the like. For trying other rules on the same calls.
    seen = models.JSONField(_("seen by the rules"), null=True, blank=True)
    approval = models.ForeignKey(
        ApprovalRequest, on_delete=models.PROTECT, null=True, related_name="+"
    )
    state = models.CharField(
        _("state"), max_length=12, choices=CallState, default=CallState.PROPOSED
    )
    result = models.JSONField(_("result"), null=True)
    # The fields of the result that others wrote; none of it is an instruction.
    outside = models.JSONField(_("from outside"), null=True, blank=True)
    error = models.JSONField(_("error"), null=True)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    latency_ms = models.PositiveIntegerField(_("latency (ms)"), null=True)
    created_at = models.DateTimeField(_("proposed at"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)
    # The transaction in which it ended, set by the database: from then on nothing of it changes.
    ended_position = models.BigIntegerField(null=True, editable=False)

    class Meta:
        verbose_name = _("tool call")
        verbose_name_plural = _("tool calls")
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "idempotency_key"], name="toolcall_idempotency_key_once"
            ),
            models.CheckConstraint(
                condition=Q(state__in=CallState.values), name="toolcall_state_known"
            ),
            models.CheckConstraint(
                condition=Q(verdict__in=["", *Effect.values]), name="toolcall_verdict_known"
            ),
            models.CheckConstraint(
                condition=Q(shadow_verdict__in=["", *Effect.values]),
                name="toolcall_shadow_verdict_known",
            ),
            models.CheckConstraint(
                condition=~Q(state="gated") | Q(approval__isnull=False),
                name="toolcall_gated_has_approval",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "run_ref", "id"], name="toolcall_tenant_run"),
            # In the order in which calls come, so that pages are filled; read backwards as well.
            models.Index(fields=["tenant", "tool", "id"], name="toolcall_of_tool"),
            models.Index(
                fields=["tenant", "shadow_version", "id"],
                condition=~Q(shadow_version=""),
                name="toolcall_shadowed",
            ),
            # BRIN: a call that ends writes nothing into it.
            BrinIndex(fields=["ended_position"], name="toolcall_ended", autosummarize=True),
        ]

    def __str__(self) -> str:
        return f"{self.tool} ({self.state})"

    @property
    def judged(self) -> JsonObject:
        """What the guard has said, by column."""
        return {name: getattr(self, name) for name in VERDICT_COLUMNS}


class RemoteEffect(TenantModel):
    """What another party was asked for on behalf of a call; the call's state says how it stands.

    Written before the party is asked, so that whoever goes on after a crash knows what to look up.
    ``request`` holds no secrets. ``circuit`` is the one that has let it in, for whoever goes on.
    ``found`` is what was heard last, and how. ``due_at`` is when the
    sweep takes the call on if nobody else has finished it; ``None`` once there is nothing to do.
    """

    call = models.OneToOneField(ToolCall, on_delete=models.CASCADE, related_name="remote_effect")
    provider = models.CharField(_("asked"), max_length=100)
    request = models.JSONField(_("request"))
    circuit = models.CharField(max_length=300, blank=True, default="", db_default="")
    sent_at = models.DateTimeField(_("sent at"))
    rounds = models.PositiveSmallIntegerField(_("times asked"), default=0)
    found = models.JSONField(_("last heard"), null=True)
    found_at = models.DateTimeField(_("last heard at"), null=True)
    due_at = models.DateTimeField(_("looked up again at"), null=True)
    unknown_at = models.DateTimeField(_("unknown since"), null=True)
    settled_by = models.CharField(_("settled by"), max_length=100, blank=True, default="")
    settled_note = models.CharField(_("note"), max_length=2000, blank=True, default="")
    settled_at = models.DateTimeField(_("settled at"), null=True)
    to_tell = models.BooleanField(_("fan still to be told"), default=False)

    class Meta:
        verbose_name = _("remote effect")
        verbose_name_plural = _("remote effects")
        indexes = [
            models.Index(fields=["tenant", "-id"], name="remoteeffect_tenant"),
            models.Index(
                fields=["due_at"], condition=Q(due_at__isnull=False), name="remoteeffect_due"
            ),
            models.Index(fields=["id"], condition=Q(to_tell=True), name="remoteeffect_to_tell"),
        ]

    def __str__(self) -> str:
        return f"{self.provider}: {self.call_id}"


class UndoState(models.TextChoices):
    """Where the undoing of one call is."""

    DUE = "due", _("to be undone")
    UNDONE = "undone", _("undone")
    NOTHING = "nothing", _("nothing to undo")
    STUCK = "stuck", _("needs a person")
    SETTLED = "settled", _("settled by a person")


UNDO_MACHINE = machine(
    "state",
    {
        UndoState.DUE: {UndoState.UNDONE, UndoState.NOTHING, UndoState.STUCK},
        UndoState.STUCK: {UndoState.DUE, UndoState.SETTLED},
        UndoState.UNDONE: set(),
        UndoState.NOTHING: set(),
        UndoState.SETTLED: set(),
    },
)


class UndoReason(models.TextChoices):
    """Why what a run did is taken back."""

    CANCELLED = "cancelled", _("the fan stopped the answer")
    FAILED = "failed", _("the answer failed")


class Undo(TenantModel):
    """One effect of a run that is over, to be taken back: what is left to do survives any crash.

    ``call`` is what was done, ``inverse`` the newest call that was made to undo it; each try makes
    a call of its own. ``run_ref`` and ``conversation_ref`` are the call's.
    """

    call = models.OneToOneField(
        ToolCall, on_delete=models.PROTECT, related_name="undo", verbose_name=_("call")
    )
    inverse = models.OneToOneField(
        ToolCall,
        on_delete=models.PROTECT,
        null=True,
        related_name="undoes",
        verbose_name=_("undoing call"),
    )
    run_ref = models.UUIDField(_("run"))
    conversation_ref = models.UUIDField(_("conversation"), null=True)
    reason = models.CharField(_("reason"), max_length=16, choices=UndoReason)
    state = models.CharField(_("state"), max_length=8, choices=UndoState, default=UndoState.DUE)
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    next_attempt_at = models.DateTimeField(_("next attempt at"))
    error = models.JSONField(_("error"), null=True)
    note = models.TextField(_("note"), blank=True, default="")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("effect to undo")
        verbose_name_plural = _("effects to undo")
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=UndoState.values), name="undo_state_known"
            ),
            models.CheckConstraint(
                condition=Q(reason__in=UndoReason.values), name="undo_reason_known"
            ),
            models.CheckConstraint(
                condition=~Q(state="undone") | Q(inverse__isnull=False),
                name="undo_undone_by_a_call",
            ),
            models.CheckConstraint(
                condition=~Q(state="settled") | ~Q(note=""), name="undo_settled_with_a_note"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "run_ref"], name="undo_tenant_run"),
            models.Index(fields=["tenant", "conversation_ref"], name="undo_tenant_conversation"),
            models.Index(fields=["next_attempt_at"], condition=Q(state="due"), name="undo_due"),
        ]

    def __str__(self) -> str:
        return f"{self.call_id} ({self.state})"


class StoredOutput(TenantModel):
    """The whole of a result that was too long to be shown; its call has the cut form."""

    call = models.OneToOneField(ToolCall, on_delete=models.CASCADE, related_name="stored_output")
    conversation_ref = models.UUIDField(_("conversation"), null=True)
    text = models.TextField(_("text"))
    total_bytes = models.PositiveIntegerField(_("bytes"))
    total_lines = models.PositiveIntegerField(_("lines"))
    created_at = models.DateTimeField(_("stored at"), auto_now_add=True)

    class Meta:
        verbose_name = _("stored output")
        verbose_name_plural = _("stored outputs")
        indexes = [models.Index(fields=["tenant", "-id"], name="storedoutput_tenant")]

    def __str__(self) -> str:
        return f"{self.call_id}: {self.total_bytes}"


class Tool(models.Model):
    """A tool that the code has, or once had (``is_present`` is false then); of the platform.

    ``successor`` names the tool that is to be used instead of one that is on its way out.
    """

    name = models.CharField(_("name"), max_length=128, unique=True)
    owner = models.CharField(_("owner"), max_length=64)
    risk = models.CharField(_("risk"), max_length=32)
    version = models.CharField(_("version in use"), max_length=16)
    successor = models.CharField(_("successor"), max_length=128, blank=True, default="")
    is_present = models.BooleanField(_("in use"), default=True)
    registered_at = models.DateTimeField(_("registered at"), auto_now_add=True)

    class Meta:
        verbose_name = _("tool")
        verbose_name_plural = _("tools")

    def __str__(self) -> str:
        return self.name


class ToolVersion(models.Model):
    """A contract that a tool has had: what ``digest`` is the hash of. Never changed."""

    tool = models.ForeignKey(
        Tool, on_delete=models.PROTECT, related_name="versions", verbose_name=_("tool")
    )
    digest = models.CharField(_("hash of the contract"), max_length=16)
    contract = models.JSONField(_("contract"))
    registered_at = models.DateTimeField(_("registered at"), auto_now_add=True)

    class Meta:
        verbose_name = _("tool version")
        verbose_name_plural = _("tool versions")
        constraints = [
            models.UniqueConstraint(fields=["tool", "digest"], name="toolversion_once"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_id} {self.digest}"


class ToolSwitch(TenantModel):
    """Whether a tenant has switched a tool off; without a row it is on."""

    tool = models.CharField(_("tool"), max_length=128)
    is_off = models.BooleanField(_("switched off"))
    reason = models.CharField(_("reason"), max_length=500)
    changed_by = models.CharField(_("changed by"), max_length=100)
    changed_at = models.DateTimeField(_("changed at"), auto_now=True)

    class Meta:
        verbose_name = _("tool switch")
        verbose_name_plural = _("tool switches")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "tool"], name="toolswitch_once"),
        ]

    def __str__(self) -> str:
        return self.tool


class SavedView(TenantModel):
    """Filters of the log of calls that somebody has kept: ``wish`` is the query of the list."""

    MOST_WISH = 1000

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, db_index=False, related_name="+"
    )
    name = models.CharField(_("name"), max_length=80)
    wish = models.CharField(_("filters"), max_length=MOST_WISH, blank=True, default="")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("kept view")
        verbose_name_plural = _("kept views")
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user", "name"], name="savedview_name_once")
        ]

    def __str__(self) -> str:
        return self.name

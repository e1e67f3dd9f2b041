"""Runs and their steps: all that is needed to go on is here, never only in a process."""

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from agents.models.conversations import Conversation
from boxoffice.common.transitions import machine
from boxoffice.tenancy.models import TenantModel


class RunState(models.TextChoices):
    """Where a run is. ``partial``: a budget ended it, with what there was as the answer."""

    QUEUED = "queued", _("queued")
    RUNNING = "running", _("running")
    WAITING = "waiting", _("waiting for a human")
    SUCCEEDED = "succeeded", _("succeeded")
    PARTIAL = "partial", _("partial")
    FAILED = "failed", _("failed")
    CANCELLED = "cancelled", _("cancelled")


RUN_MACHINE = machine(
    "state",
    {
        RunState.QUEUED: {RunState.RUNNING, RunState.CANCELLED},
        RunState.RUNNING: {
            RunState.QUEUED,  # the lease was given back or ran out
            RunState.WAITING,
            RunState.SUCCEEDED,
            RunState.PARTIAL,
            RunState.FAILED,
            RunState.CANCELLED,
        },
        RunState.WAITING: {RunState.QUEUED, RunState.CANCELLED},
        RunState.SUCCEEDED: set(),
        RunState.PARTIAL: set(),
        RunState.FAILED: set(),
        RunState.CANCELLED: set(),
    },
)


class Run(TenantModel):
    """One answer of the agent: queue state, lease, budgets.

    ``asked_by`` is the key of the principal; runs at work are counted by it. ``lease_epoch`` rises
    with each claim, and every write of the run names its epoch. ``last_seq`` is the number of the
    newest step, ``event_seq`` a lower bound of the newest event's. ``tainted_by`` is the call that
    brought the first text from outside, in this run or in one that its history has.
    """

    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="runs")
    parent = models.ForeignKey("self", on_delete=models.PROTECT, null=True, related_name="children")
    forked_from = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        related_name="forks",
        verbose_name=_("forked from"),
    )
    forked_step = models.PositiveIntegerField(_("forked at step"), null=True)
    state = models.CharField(_("state"), max_length=10, choices=RunState, default=RunState.QUEUED)
    route = models.CharField(_("route"), max_length=32, default="agent")
    asked_by = models.CharField(_("asked by"), max_length=80, default="", db_default="")
    is_anonymous = models.BooleanField(_("asked by a visitor"), default=False, db_default=False)
    model = models.CharField(_("model"), max_length=100)
    tier = models.CharField(_("tier"), max_length=50)
    max_steps = models.PositiveSmallIntegerField()
    max_output_tokens = models.PositiveIntegerField()
    max_wall_seconds = models.PositiveIntegerField()
    max_cost_micros = models.PositiveBigIntegerField()
    steps_used = models.PositiveSmallIntegerField(_("model calls"), default=0)
    input_tokens = models.PositiveIntegerField(_("input tokens"), default=0)
    output_tokens = models.PositiveIntegerField(_("output tokens"), default=0)
    cost_micros = models.PositiveBigIntegerField(_("cost (millionths of a US dollar)"), default=0)
    worked_ms = models.PositiveIntegerField(_("worked (ms)"), default=0)
    last_seq = models.PositiveIntegerField(default=0)
    event_seq = models.PositiveIntegerField(default=0)
    lease_owner = models.CharField(max_length=100, blank=True, default="")
    lease_epoch = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    handed_out_at = models.DateTimeField(null=True)
    told_to_wait_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    undo_requested_at = models.DateTimeField(null=True, editable=False)
    is_tainted = models.BooleanField(_("has seen text from outside"), default=False)
    tainted_by = models.UUIDField(_("call that brought it"), null=True)
    error = models.JSONField(_("error"), null=True)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("run")
        verbose_name_plural = _("runs")
        constraints = [
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state_known"),
            models.UniqueConstraint(
                fields=["conversation"],
                condition=Q(state="running", parent__isnull=True),
                name="run_one_running_per_conversation",
            ),
            models.CheckConstraint(
                condition=~Q(state="running") | Q(lease_until__isnull=False),
                name="run_running_has_a_lease",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "conversation", "id"], name="run_tenant_conversation"),
            models.Index(
                fields=["state", "handed_out_at"],
                condition=Q(state__in=["queued", "running", "waiting"]),
                name="run_unfinished",
            ),
            models.Index(
                fields=["tenant", "is_anonymous", "id"],
                condition=Q(state="queued"),
                name="run_in_line",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pk} ({self.state})"


class StepKind(models.TextChoices):
    """What a step added."""

    INPUT = "input", _("messages taken up")
    MODEL = "model", _("model")
    RESULTS = "results", _("tool results")
    FINAL = "final", _("end")


class Step(TenantModel):
    """What one step added to a run; never changed, never removed.

    ``content`` by kind: input ``{"messages": [{"id", "text"}]}`` · model ``{"blocks": […],
    "stop_reason", "calls": [id, …]}`` · results ``{"calls": [id, …], "notes": […]}`` (the results
    themselves are in the ledger) · final ``{"state", "answer", …}``.
    A fork's copied steps bear ``"copied": true``; its first input step has the messages ``before``
    it, its results steps the results as ``blocks``, and the ``calls`` of both are the other run's.
    ``sent`` of a model step is what `agents.context.request` needs to build its request again.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="steps")
    seq = models.PositiveIntegerField()
    epoch = models.PositiveIntegerField()
    kind = models.CharField(max_length=8, choices=StepKind)
    content = models.JSONField()
    sent = models.JSONField(null=True)
    usage = models.JSONField(null=True)
    cost_micros = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        verbose_name = _("step")
        verbose_name_plural = _("steps")
        ordering = ["run", "seq"]
        constraints = [
            models.UniqueConstraint(fields=["run", "seq"], name="step_seq_once"),
            models.CheckConstraint(condition=Q(kind__in=StepKind.values), name="step_kind_known"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.seq} {self.kind}"

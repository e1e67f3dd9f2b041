"""Runs asked again: the same questions, the recorded results, and what the model says today."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from agents.models.runs import Run
from boxoffice.common.transitions import machine
from boxoffice.tenancy.models import TenantModel


class ReplayState(models.TextChoices):
    """Where a replay is. ``finished``: the model was asked as far as it kept to the record."""

    QUEUED = "queued", _("queued")
    RUNNING = "running", _("running")
    FINISHED = "finished", _("finished")
    FAILED = "failed", _("failed")


REPLAY_MACHINE = machine(
    "state",
    {
        # Never queued again: what a lost worker has asked is paid for, and nobody waits for it.
        ReplayState.QUEUED: {ReplayState.RUNNING, ReplayState.FAILED},
        ReplayState.RUNNING: {ReplayState.FINISHED, ReplayState.FAILED},
        ReplayState.FINISHED: set(),
        ReplayState.FAILED: set(),
    },
)


class Replay(TenantModel):
    """A run from one of its steps on, asked of its model again; no tool runs.

    ``turns`` has one object for each model call, see ``agents.replay.again``. ``asked_by`` pays.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="replays")
    from_step = models.PositiveIntegerField(_("from step"))
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="+",
        verbose_name=_("asked by"),
    )
    state = models.CharField(
        _("state"), max_length=10, choices=ReplayState, default=ReplayState.QUEUED
    )
    outcome = models.CharField(_("outcome"), max_length=32, blank=True, default="")
    turns = models.JSONField(_("turns"), default=list)
    error = models.JSONField(_("error"), null=True)
    cost_micros = models.PositiveBigIntegerField(_("cost (millionths of a US dollar)"), default=0)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)
    started_at = models.DateTimeField(_("started at"), null=True)
    finished_at = models.DateTimeField(_("finished at"), null=True)

    class Meta:
        verbose_name = _("replay")
        verbose_name_plural = _("replays")
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=ReplayState.values), name="replay_state_known"
            ),
            models.UniqueConstraint(
                fields=["run", "from_step"],
                condition=Q(state__in=["queued", "running"]),
                name="replay_one_at_a_time",
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "run", "-id"], name="replay_tenant_run"),
            models.Index(
                fields=["created_at"],
                condition=Q(state__in=["queued", "running"]),
                name="replay_unfinished",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} from {self.from_step} ({self.state})"

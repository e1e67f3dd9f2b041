"""What happened, for good: rows that nobody changes, chained by seals."""

from django.db import models
from django.db.models import Func, Q
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.models import TenantModel


class AuditRecord(TenantModel):
    """One thing that somebody did. Written by ``audit.services.record``, never changed.

    ``position`` is set by the database and names the writing transaction, so that a seal can tell
    which records may still be joined by a late commit; ``sequence`` orders them within it.
    """

    sequence = models.BigIntegerField(
        _("sequence"),
        editable=False,
        db_default=Func(models.Value("audit_auditrecord_sequence"), function="nextval"),
    )
    position = models.BigIntegerField(_("position"), editable=False, db_default=0)
    action = models.CharField(_("action"), max_length=100)
    actor = models.CharField(_("actor"), max_length=200)
    target = models.CharField(_("target"), max_length=200, blank=True, default="")
    details = models.JSONField(_("details"), default=dict)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("audit record")
        verbose_name_plural = _("audit records")
        ordering = ["-sequence"]
        indexes = [
            models.Index(fields=["tenant", "position", "sequence"], name="audit_tenant_position"),
            models.Index(fields=["tenant", "target"], name="audit_tenant_target"),
            models.Index(fields=["tenant", "action"], name="audit_tenant_action"),
        ]
        constraints = [models.UniqueConstraint(fields=["sequence"], name="audit_sequence_once")]

    def __str__(self) -> str:
        return f"{self.sequence} {self.action}"


class AuditSeal(TenantModel):
    """A link of one tenant's chain: the digest of the seal before it and of its records.

    It covers the records with ``from_position <= position < below_position``; the ranges of a
    tenant's seals touch, so that a record put in or taken out later breaks the chain.
    """

    number = models.BigIntegerField(_("number"))
    from_position = models.BigIntegerField(_("from position"))
    below_position = models.BigIntegerField(_("below position"))
    records = models.BigIntegerField(_("records"))
    previous = models.CharField(_("digest of the seal before"), max_length=64, blank=True)
    digest = models.CharField(_("digest"), max_length=64)
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("audit seal")
        verbose_name_plural = _("audit seals")
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["tenant", "number"], name="audit_seal_number_once"),
            models.CheckConstraint(
                condition=Q(below_position__gt=models.F("from_position")),
                name="audit_seal_range_forward",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.digest[:12]}"

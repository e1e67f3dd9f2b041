"""What is said between a fan, the agent, and the people of the box office."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from boxoffice.tenancy.models import TenantModel


class Conversation(TenantModel):
    """One chat of a fan (``user``) or of a visitor who did not sign in (``visitor``)."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    visitor = models.CharField(max_length=64, blank=True, default="")
    title = models.CharField(_("title"), max_length=120, blank=True, default="")
    language = models.CharField(_("language"), max_length=10, default="pt-br")
    handoff_at = models.DateTimeField(_("handed to a person at"), null=True, blank=True)
    handoff_reason = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(_("created at"), auto_now_add=True)

    class Meta:
        verbose_name = _("conversation")
        verbose_name_plural = _("conversations")
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=False) | ~Q(visitor=""), name="conversation_has_an_owner"
            )
        ]
        indexes = [
            models.Index(fields=["tenant", "user", "-id"], name="conversation_tenant_user"),
            models.Index(fields=["tenant", "visitor", "-id"], name="conversation_tenant_visitor"),
            models.Index(
                fields=["tenant", "-handoff_at"],
                condition=Q(handoff_at__isnull=False),
                name="conversation_handoff",
            ),
        ]

    def __str__(self) -> str:
        return self.title or str(self.pk)

    @property
    def owner_key(self) -> str:
        """Whose it is, in the words of ledgers and logs."""
        return f"user:{self.user_id}" if self.user_id is not None else f"visitor:{self.visitor}"


class Speaker(models.TextChoices):
    """Who said it."""

    FAN = "fan", _("fan")
    ASSISTANT = "assistant", _("assistant")
    HUMAN = "human", _("person of the box office")


class Message(TenantModel):
    """One thing said, as the page shows it.

    A fan's message belongs to the run that answers it; ``taken_at`` is set in the transaction in
    which a step takes it up, so it is answered once.
    """

    conversation = models.ForeignKey(
        Conversation, on_delete=models.CASCADE, related_name="messages"
    )
    run = models.ForeignKey(
        "agents.Run", on_delete=models.PROTECT, null=True, related_name="messages"
    )
    speaker = models.CharField(_("speaker"), max_length=10, choices=Speaker)
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+"
    )
    text = models.TextField(_("text"))
    client_id = models.CharField(max_length=64, null=True)  # noqa: DJ001 - NULL is not unique
    is_partial = models.BooleanField(_("cut short"), default=False)
    taken_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(_("said at"), auto_now_add=True)

    class Meta:
        verbose_name = _("message")
        verbose_name_plural = _("messages")
        constraints = [
            models.UniqueConstraint(
                fields=["conversation", "client_id"], name="message_client_id_once"
            ),
            models.UniqueConstraint(
                fields=["run"],
                condition=Q(speaker="assistant"),
                name="message_one_answer_per_run",
            ),
            models.CheckConstraint(
                condition=Q(speaker__in=Speaker.values), name="message_speaker_known"
            ),
        ]
        indexes = [
            models.Index(fields=["tenant", "conversation", "id"], name="message_tenant_conv"),
            models.Index(
                fields=["run"],
                condition=Q(taken_at__isnull=True, speaker="fan"),
                name="message_not_taken",
            ),
        ]

    def __str__(self) -> str:
        return self.text[:60]

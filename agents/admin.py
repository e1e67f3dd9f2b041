"""Conversations and runs in the console: to be read."""

from django.contrib import admin
from django.db import models
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext_lazy as _

from agents.models import Conversation, Message, PromptVersion, Replay, Run, Step
from agents.replay.console import RunPages
from agents.templatetags.console import dollars
from boxoffice.tenancy.console import MachineRows, MachineWritten
from tools.models import ToolCall


class MessageRows(MachineRows):
    """What was said."""

    model = Message
    fields = readonly_fields = ["created_at", "speaker", "author", "text", "is_partial"]
    ordering = ["id"]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Message]:
        """With the authors."""
        return super().get_queryset(request).select_related("author")  # type: ignore[no-any-return]


class StepRows(MachineRows):
    """What each step added."""

    model = Step
    fields = readonly_fields = ["seq", "kind", "created_at", "cost", "content"]
    ordering = ["seq"]

    @admin.display(description=_("cost"))
    def cost(self, step: Step) -> str:
        """In US dollars."""
        return dollars(step.cost_micros)


@admin.register(Conversation)
class ConversationAdmin(MachineWritten):
    """Chats of fans and visitors."""

    list_display = ["created_at", "tenant", "user", "title", "handoff_at", "handoff_reason"]
    list_filter = ["tenant", "handoff_at", "created_at"]
    list_select_related = ["tenant", "user"]
    search_fields = ["=id", "title", "user__username"]
    ordering = ["-id"]
    inlines = [MessageRows]


@admin.register(Message)
class MessageAdmin(MachineWritten):
    """Everything that was said."""

    deferred = ("text",)
    list_display = ["created_at", "tenant", "conversation", "speaker", "author", "is_partial"]
    list_filter = ["speaker", "tenant", "created_at"]
    list_select_related = ["tenant", "conversation", "author"]
    search_fields = ["=id", "=conversation__id", "=run__id"]
    ordering = ["-id"]


@admin.register(Run)
class RunAdmin(RunPages, MachineWritten):
    """Answers of the agent, with their steps."""

    deferred = ("error",)
    list_display = [
        "created_at",
        "tenant",
        "conversation",
        "state",
        "model",
        "tier",
        "steps_used",
        "output_tokens",
        "cost",
        "is_tainted",
        "finished_at",
    ]
    list_filter = ["state", "model", "tier", "is_tainted", "tenant", "created_at"]
    list_select_related = ["tenant", "conversation"]
    search_fields = ["=id", "=conversation__id", "conversation__user__username"]
    ordering = ["-id"]
    inlines = [StepRows]
    exclude = ["tainted_by"]
    readonly_fields = ["brought_by"]

    @admin.display(description=_("cost"), ordering="cost_micros")
    def cost(self, run: Run) -> str:
        """In US dollars."""
        return dollars(run.cost_micros)

    @admin.display(description=_("text from outside came with"))
    def brought_by(self, run: Run) -> str:
        """The call with which the first of it came, in this run or in one before it."""
        call = ToolCall.objects.filter(pk__in=[run.tainted_by] if run.tainted_by else []).first()
        if call is None:
            return "-"
        address = reverse("admin:tools_toolcall_change", args=[call.pk])
        where = _("this run") if call.run_ref == run.pk else _("an earlier run")
        fields = " ".join(call.outside or [])
        return format_html('<a href="{}">{}</a> ({}): {}', address, call.tool, where, fields)


@admin.register(Step)
class StepAdmin(MachineWritten):
    """Every step of every run."""

    deferred = ("content", "usage")
    list_display = ["created_at", "tenant", "run_id", "seq", "epoch", "kind", "cost"]
    list_filter = ["kind", "tenant", "created_at"]
    list_select_related = ["tenant"]
    search_fields = ["=id", "=run__id"]
    ordering = ["-id"]

    @admin.display(description=_("cost"), ordering="cost_micros")
    def cost(self, step: Step) -> str:
        """In US dollars."""
        return dollars(step.cost_micros)


@admin.register(PromptVersion)
class PromptVersionAdmin(MachineWritten):
    """What models were told, by version."""

    deferred = ("system", "tools")
    list_display = ["created_at", "tenant", "digest", "model"]
    list_filter = ["model", "tenant", "created_at"]
    list_select_related = ["tenant"]
    search_fields = ["=id", "=digest"]
    ordering = ["-id"]


@admin.register(Replay)
class ReplayAdmin(MachineWritten):
    """Runs that were asked of their model again."""

    deferred = ("turns", "error")
    list_display = ["created_at", "tenant", "run_id", "from_step", "asked_by", "state", "outcome"]
    list_filter = ["state", "outcome", "tenant", "created_at"]
    list_select_related = ["tenant", "asked_by"]
    search_fields = ["=id", "=run__id", "asked_by__username"]
    ordering = ["-id"]

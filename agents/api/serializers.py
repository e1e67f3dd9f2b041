"""Bodies and rows of the REST doors of conversations and runs."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents import selectors
from agents.models import (
    Conversation,
    Message,
    Run,
    RunState,
    Speaker,
    Step,
)
from agents.services import MAX_MESSAGE_CHARACTERS
from boxoffice.common.types import JsonObject
from boxoffice.tenancy.rest import Body, Text
from tools.effects import has_pending_approval
from tools.models import ToolCall

ROLES = {Speaker.FAN: "user", Speaker.ASSISTANT: "assistant", Speaker.HUMAN: "human"}
_MICROS = Decimal(1_000_000)


def usd(micros: int) -> float:
    """Millionths of a US dollar as dollars: ``1500 -> 0.0015``."""
    return float(Decimal(micros) / _MICROS)


class ConversationBody(Body):
    """What a new conversation may say of itself."""

    language = serializers.ChoiceField(
        choices=[code for code, _ in settings.LANGUAGES],
        required=False,
        help_text="Of the agent's first words; it answers in the fan's own. "
        "Default: by Accept-Language.",
    )


@extend_schema_field(
    {"type": "string", "minLength": 1, "maxLength": MAX_MESSAGE_CHARACTERS, "pattern": "[!-~]"}
)
class MessageText(Text):
    """What somebody says; ``agents.services`` holds its bounds."""


@extend_schema_field({"type": "string", "minLength": 1, "maxLength": 64, "pattern": "^[!-~]+$"})
class ClientId(Text):
    """A client's own name for a message."""


class MessageBody(Body):
    """A message to post."""

    text = MessageText(trim_whitespace=False)
    client_id = ClientId(
        required=False,
        max_length=64,
        help_text="The same client_id again in a conversation is the same message.",
    )


@extend_schema_field({"type": "boolean"})
class YesOrNo(serializers.Field[bool, Any, bool, Any]):
    """true or false; nothing else is taken for one of them."""

    def to_internal_value(self, data: Any) -> bool:
        """The value as it came."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("true or false.")
        return data


class CancelBody(Body):
    """How to stop."""

    compensate = YesOrNo(
        required=False,
        default=False,
        help_text="Also take back what the run did and can be undone: seats that it held go back. "
        "Can be asked for later too, when the run was stopped without.",
    )


class ConversationSerializer(serializers.ModelSerializer[Conversation]):
    """A conversation."""

    user = serializers.SerializerMethodField()

    class Meta:
        model = Conversation
        fields = [
            "id",
            "title",
            "language",
            "user",
            "handoff_at",
            "handoff_reason",
            "created_at",
        ]
        read_only_fields = fields

    def get_user(self, conversation: Conversation) -> str | None:
        """The fan's user name; ``None`` for a visitor."""
        return None if conversation.user is None else conversation.user.get_username()


class MessageSerializer(serializers.ModelSerializer[Message]):
    """Something said in a conversation."""

    role = serializers.SerializerMethodField()
    run = serializers.UUIDField(source="run_id", read_only=True, allow_null=True)

    class Meta:
        model = Message
        fields = [
            "id",
            "speaker",
            "role",
            "text",
            "run",
            "client_id",
            "is_partial",
            "created_at",
        ]
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(choices=sorted(ROLES.values())))
    def get_role(self, message: Message) -> str:
        """The speaker in the words of chat APIs."""
        return ROLES[Speaker(message.speaker)]


class PostedSerializer(serializers.Serializer[Any]):
    """The ids of a stored message and of the run that answers it."""

    message = serializers.UUIDField()
    run = serializers.UUIDField(
        allow_null=True, help_text="null for a person's answer: nothing runs for it."
    )


class UsageSerializer(serializers.Serializer[Any]):
    """What a run has used."""

    input_tokens = serializers.IntegerField()
    output_tokens = serializers.IntegerField()
    cost_usd = serializers.FloatField()


class WaitingSerializer(serializers.Serializer[Any]):
    """A human's word that a run waits for."""

    approval = serializers.UUIDField()
    gate = serializers.CharField()
    tool = serializers.CharField()


class RunSerializer(serializers.ModelSerializer[Run]):
    """One answer of the agent, done or under way."""

    conversation = serializers.UUIDField(source="conversation_id", read_only=True)
    state = serializers.ChoiceField(choices=RunState.choices, read_only=True)
    answer = serializers.SerializerMethodField()
    waiting_for = serializers.SerializerMethodField()
    usage = serializers.SerializerMethodField()
    steps = serializers.IntegerField(
        source="steps_used", read_only=True, help_text="Model calls so far."
    )
    error = serializers.JSONField(read_only=True, allow_null=True)

    class Meta:
        model = Run
        fields = [
            "id",
            "conversation",
            "state",
            "answer",
            "waiting_for",
            "usage",
            "steps",
            "error",
            "model",
            "created_at",
            "finished_at",
        ]
        read_only_fields = fields

    def get_answer(self, run: Run) -> str | None:
        """What it answered, also when only partly."""
        return selectors.answer_of(run)

    @extend_schema_field(WaitingSerializer(many=True, allow_null=True))
    def get_waiting_for(self, run: Run) -> list[JsonObject] | None:
        """The open requests of a waiting run; ``None`` when it does not wait."""
        if run.state != RunState.WAITING:
            return None
        return [
            {"approval": str(call.approval_id), "gate": call.approval.gate, "tool": call.tool}
            for call in selectors.tool_calls_of(run)
            if has_pending_approval(call) and call.approval is not None
        ]

    @extend_schema_field(UsageSerializer)
    def get_usage(self, run: Run) -> JsonObject:
        """Tokens and cost so far."""
        return {
            "input_tokens": run.input_tokens,
            "output_tokens": run.output_tokens,
            "cost_usd": usd(run.cost_micros),
        }


class StepSerializer(serializers.ModelSerializer[Step]):
    """What one step added to its run."""

    usage = serializers.JSONField(read_only=True, allow_null=True)
    cost_usd = serializers.SerializerMethodField()

    class Meta:
        model = Step
        fields = ["id", "seq", "kind", "content", "usage", "cost_usd", "created_at"]
        read_only_fields = fields

    def get_cost_usd(self, step: Step) -> float:
        """What its model call cost."""
        return usd(step.cost_micros)


class ToolCallSerializer(serializers.ModelSerializer[ToolCall]):
    """One call that the model proposed, allowed or not."""

    result = serializers.JSONField(read_only=True, allow_null=True)
    error = serializers.JSONField(read_only=True, allow_null=True)

    class Meta:
        model = ToolCall
        fields = [
            "id",
            "tool",
            "arguments",
            "verdict",
            "state",
            "result",
            "error",
            "attempts",
            "latency_ms",
        ]
        read_only_fields = fields


class RunEventSerializer(serializers.Serializer[Any]):
    """An event of a run, as the page gets it; what else it holds depends on its type."""

    run = serializers.UUIDField()
    seq = serializers.IntegerField(min_value=1)
    type = serializers.CharField()

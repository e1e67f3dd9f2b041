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
    Replay,
    ReplayState,
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

MAX_STEP = 2**31 - 1
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


@extend_schema_field({"type": "integer", "minimum": 1, "maximum": MAX_STEP})
class StepNumber(serializers.Field[int, Any, int, Any]):
    """The number of a step; a string, a float or a boolean is none."""

    def to_internal_value(self, data: Any) -> int:
        """The number as it came."""
        if type(data) is not int or not 1 <= data <= MAX_STEP:
            raise serializers.ValidationError(f"A number from 1 to {MAX_STEP}.")
        return data


class ReplayBody(Body):
    """Where a model is to be asked from."""

    from_step = StepNumber()


@extend_schema_field({"type": "boolean"})
class YesOrNo(serializers.Field[bool, Any, bool, Any]):
    """true or false; nothing else is taken for one of them."""

    def to_internal_value(self, data: Any) -> bool:
        """The value as it came."""
        if not isinstance(data, bool):
            raise serializers.ValidationError("true or false.")
        return data


class ForkBody(Body):
    """Where a run is to go another way."""

    from_step = StepNumber()
    accept_changes = YesOrNo(
        required=False,
        help_text="Go on although prompt, tools or model are not what they were. Default: false.",
    )


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


class ChangeSerializer(serializers.Serializer[Any]):
    """Something that is no longer as it was."""

    code = serializers.CharField(help_text="Stable, for machines.")
    message = serializers.CharField()
    tool = serializers.CharField(allow_blank=True, required=False)


class JudgedSerializer(serializers.Serializer[Any]):
    """A verdict of the guard."""

    effect = serializers.CharField(allow_blank=True)
    code = serializers.CharField(allow_blank=True)
    policy_version = serializers.CharField(allow_blank=True)
    tool_version = serializers.CharField(allow_blank=True)


class CallReplaySerializer(serializers.Serializer[Any]):
    """A recorded call, its verdict then and today, and what the model was given for it."""

    id = serializers.UUIDField()
    tool = serializers.CharField()
    arguments = serializers.JSONField()
    edited_arguments = serializers.JSONField(allow_null=True)
    state = serializers.CharField()
    recorded = JudgedSerializer()
    today = JudgedSerializer()
    approval = serializers.JSONField(allow_null=True)
    outcome = serializers.JSONField()
    changes = ChangeSerializer(many=True)


class RequestReplaySerializer(serializers.Serializer[Any]):
    """A model's request as it was sent."""

    prompt = serializers.CharField(allow_blank=True, help_text="A key of the report's prompts.")
    rest = serializers.ListField(child=serializers.DictField())
    max_tokens = serializers.IntegerField(allow_null=True)
    is_exact = serializers.BooleanField(
        allow_null=True, help_text="Whether the messages are those that were sent; null: not known."
    )
    is_flattened = serializers.BooleanField(help_text="Tool blocks were sent as text.")
    after_blocks = serializers.IntegerField(
        help_text="How many blocks come before these messages; the steps before have shown them."
    )
    messages = serializers.ListField(child=serializers.DictField())


class StepReplaySerializer(serializers.Serializer[Any]):
    """One step of the walk."""

    seq = serializers.IntegerField()
    kind = serializers.CharField()
    at = serializers.DateTimeField()
    is_copied = serializers.BooleanField()
    changes = ChangeSerializer(many=True)
    said = serializers.ListField(child=serializers.DictField())
    request = RequestReplaySerializer(allow_null=True)
    turn = serializers.JSONField(allow_null=True)
    calls = CallReplaySerializer(many=True)
    results = serializers.ListField(child=serializers.DictField())
    end = serializers.JSONField(allow_null=True)


class ReportSerializer(serializers.Serializer[Any]):
    """A run that is over, walked through again."""

    run = serializers.UUIDField()
    conversation = serializers.UUIDField()
    state = serializers.CharField()
    from_step = serializers.IntegerField()
    last_step = serializers.IntegerField()
    next_step = serializers.IntegerField(allow_null=True, help_text="Where to read on.")
    tier_then = serializers.CharField()
    tier_today = serializers.CharField(allow_blank=True)
    changes = ChangeSerializer(many=True)
    prompts = serializers.DictField(child=serializers.JSONField())
    steps = StepReplaySerializer(many=True)


class ReplaySerializer(serializers.ModelSerializer[Replay]):
    """A run asked of its model again."""

    run = serializers.UUIDField(source="run_id", read_only=True)
    state = serializers.ChoiceField(choices=ReplayState.choices, read_only=True)
    turns = serializers.ListField(child=serializers.DictField(), read_only=True)
    error = serializers.JSONField(read_only=True, allow_null=True)
    cost_usd = serializers.SerializerMethodField()

    class Meta:
        model = Replay
        fields = [
            "id",
            "run",
            "from_step",
            "state",
            "outcome",
            "turns",
            "error",
            "cost_usd",
            "created_at",
            "finished_at",
        ]
        read_only_fields = fields

    def get_cost_usd(self, replay: Replay) -> float:
        """What asking has cost."""
        return usd(replay.cost_micros)


class ForkSerializer(serializers.ModelSerializer[Run]):
    """A run that was made from another one."""

    run = serializers.UUIDField(source="pk", read_only=True)
    conversation = serializers.UUIDField(source="conversation_id", read_only=True)
    forked_from = serializers.UUIDField(source="forked_from_id", read_only=True)
    from_step = serializers.IntegerField(source="forked_step", read_only=True)
    model = serializers.CharField(read_only=True)

    class Meta:
        model = Run
        fields = ["run", "conversation", "forked_from", "from_step", "model"]
        read_only_fields = fields


class RunEventSerializer(serializers.Serializer[Any]):
    """An event of a run, as the page gets it; what else it holds depends on its type."""

    run = serializers.UUIDField()
    seq = serializers.IntegerField(min_value=1)
    type = serializers.CharField()

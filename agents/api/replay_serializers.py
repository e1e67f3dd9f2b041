"""Bodies and rows of the REST doors of replays and forks."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from agents.api.serializers import YesOrNo, usd
from agents.models import Replay, ReplayState, Run
from boxoffice.tenancy.rest import Body

MAX_STEP = 2**31 - 1


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


class ForkBody(Body):
    """Where a run is to go another way."""

    from_step = StepNumber()
    accept_changes = YesOrNo(
        required=False,
        help_text="Go on although prompt, tools or model are not what they were. Default: false.",
    )


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

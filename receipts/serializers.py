"""The shapes of `receipts.told`, declared for the OpenAPI schema; a test holds their keys to each other."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from receipts.errors import BY_CODE, REASONS
from receipts.lifecycle import Outcome, Status
from receipts.models import ItemState, Trigger
from receipts.replay import REASON_MAX, Mode

STATUSES = [(s.value, s.value) for s in Status]
OUTCOMES = [(o.value, o.value) for o in Outcome]
MODES = [(m.value, m.value) for m in Mode]
JSON_OBJECT = {"type": "object", "additionalProperties": {}}


@extend_schema_field(JSON_OBJECT)
class ObjectField(serializers.JSONField):
    """Some JSON object."""


class LinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    events = serializers.CharField()
    run_receipts = serializers.CharField()
    retry = serializers.CharField(help_text="POST")
    cancel = serializers.CharField(help_text="POST")
    replay = serializers.CharField(help_text="GET is the dry run, POST the deed; needs `replay_receipt`")
    run = serializers.CharField()
    ticket = serializers.CharField()
    page = serializers.CharField()


class ReceiptSerializer(serializers.Serializer[Any]):
    """The durable row of one tool call."""

    receipt_id = serializers.UUIDField()
    run_id = serializers.UUIDField()
    replay_of = serializers.UUIDField(allow_null=True)
    tool = serializers.CharField()
    contract = serializers.CharField(help_text="`name@version`")
    contract_sha256 = serializers.CharField()
    ticket_id = serializers.CharField()
    status = serializers.ChoiceField(choices=STATUSES)
    outcome = serializers.ChoiceField(choices=OUTCOMES, allow_null=True, help_text="null while pending")
    http_status = serializers.IntegerField(allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_reason = serializers.CharField(allow_null=True)
    arguments = ObjectField(help_text="validated and redacted; empty until then")
    result_ref = serializers.CharField(allow_null=True, help_text="`FUP-…`")
    input_hash = serializers.CharField()
    attempt = serializers.IntegerField()
    context_moved = serializers.BooleanField(help_text="the conversation changed while the model wrote")
    replayable = serializers.BooleanField()
    replay_refusal = serializers.CharField(allow_null=True)
    user = serializers.CharField()
    on_behalf_of = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    deadline_at = serializers.DateTimeField()
    settled_at = serializers.DateTimeField(allow_null=True)
    applied_at = serializers.DateTimeField(allow_null=True)
    overdue = serializers.BooleanField()
    model_decision = ObjectField(allow_null=True, help_text="what the model proposed and how it was judged")
    tool_result = ObjectField(allow_null=True, help_text="what the tool did or found; null while pending")
    links = LinksSerializer()


class ReplaySerializer(serializers.Serializer[Any]):
    """The body of a replay."""

    reason = serializers.CharField(max_length=REASON_MAX, help_text="why, for those who read it later; redacted")
    mode = serializers.ChoiceField(
        choices=MODES,
        required=False,
        allow_null=True,
        help_text="default: `same_arguments`, without a model call, where validated arguments are kept",
    )
    contract = serializers.CharField(
        required=False, allow_null=True, help_text="`name@2`; default: the receipt's own, with the same hash"
    )
    expected_replay_no = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, help_text="as the dry run said; another one is a 409"
    )


class RefusalSerializer(serializers.Serializer[Any]):
    """Why a replay would be refused."""

    code = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    detail = serializers.CharField()
    next_step = serializers.CharField()
    receipt_id = serializers.UUIDField(allow_null=True, help_text="the receipt to look at")


class DryRunSerializer(serializers.Serializer[Any]):
    """What a replay would be, as things stand."""

    replayable = serializers.BooleanField()
    mode = serializers.ChoiceField(choices=MODES, allow_null=True, help_text="null where it was refused before")
    contract = serializers.CharField(help_text="that it would run under")
    contracts = serializers.ListField(child=serializers.CharField(), help_text="of this tool, as held here")
    expected_replay_no = serializers.IntegerField(help_text="to be sent back with the replay")
    refusal = RefusalSerializer(allow_null=True)


class StartBulkReplaySerializer(serializers.Serializer[Any]):
    """The body of a bulk replay: exactly one of `receipts`, `filter` and `plan`."""

    receipts = serializers.ListField(child=serializers.UUIDField(), required=False, help_text="ids")
    filter = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="as the parameters of /receipts"
    )
    plan = serializers.CharField(required=False, help_text="as a dry run gave it: exactly those receipts")
    reason = serializers.CharField(required=False, max_length=REASON_MAX, help_text="required but for a dry run")
    dry_run = serializers.BooleanField(required=False, help_text="say what would happen, and run nothing")


class PlanCountSerializer(serializers.Serializer[Any]):
    """Receipts of a plan with one verdict."""

    verdict = serializers.CharField(help_text="the mode, or the code of the exclusion")
    reason = serializers.CharField(allow_null=True)
    runs = serializers.BooleanField()
    receipts = serializers.IntegerField()


class PlanItemSerializer(serializers.Serializer[Any]):
    """One receipt of a plan."""

    receipt_id = serializers.UUIDField()
    verdict = serializers.CharField()
    reason = serializers.CharField(allow_null=True)
    look_at = serializers.UUIDField(allow_null=True)


class BulkPlanSerializer(serializers.Serializer[Any]):
    """What a bulk replay would be."""

    filter = serializers.DictField(child=serializers.CharField(), help_text="in words")
    replays = serializers.IntegerField()
    excluded = serializers.IntegerField()
    counts = PlanCountSerializer(many=True)
    items = PlanItemSerializer(many=True, help_text="oldest first")
    plan = serializers.CharField(help_text="to be sent back within an hour, by the same person")


class TallySerializer(serializers.Serializer[Any]):
    """What has happened so far."""

    waiting = serializers.IntegerField(help_text="not begun")
    pending = serializers.IntegerField(help_text="replayed and being worked on")
    retrying = serializers.IntegerField(help_text="replayed, failed, and continued by the system")
    applied = serializers.IntegerField()
    failed = serializers.IntegerField()
    refused = serializers.IntegerField(help_text="at their turn")
    stopped = serializers.IntegerField()
    excluded = serializers.IntegerField(help_text="by the plan")
    replayed = serializers.IntegerField()


class BulkItemSerializer(serializers.Serializer[Any]):
    """One receipt of a bulk replay."""

    receipt_id = serializers.UUIDField()
    verdict = serializers.CharField()
    state = serializers.ChoiceField(choices=ItemState.choices)
    new_receipt_id = serializers.UUIDField(allow_null=True)
    refusal_code = serializers.CharField(allow_null=True)
    refusal_reason = serializers.CharField(allow_null=True)
    look_at = serializers.UUIDField(allow_null=True)


class BulkLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    stop = serializers.CharField(help_text="POST")
    page = serializers.CharField()


class BulkReplaySerializer(serializers.Serializer[Any]):
    """Many replays with one reason."""

    bulk_replay_id = serializers.UUIDField()
    actor = serializers.CharField()
    reason = serializers.CharField()
    filter = serializers.DictField(child=serializers.CharField(), help_text="in words")
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    stop_requested_at = serializers.DateTimeField(allow_null=True)
    stop_requested_by = serializers.CharField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    tally = TallySerializer()
    items = BulkItemSerializer(many=True)
    links = BulkLinksSerializer()


class RunReceiptSerializer(serializers.Serializer[Any]):
    """One attempt, as it is exported."""

    run_id = serializers.UUIDField()
    workflow = serializers.CharField()
    workflow_run_id = serializers.UUIDField(allow_null=True)
    receipt_id = serializers.UUIDField()
    replay_of = serializers.UUIDField(allow_null=True)
    attempt = serializers.IntegerField()
    tool = serializers.CharField()
    contract = serializers.CharField()
    contract_sha256 = serializers.CharField()
    input_hash = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField()
    status = serializers.ChoiceField(choices=OUTCOMES)
    output = serializers.CharField(allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_reason = serializers.CharField(allow_null=True)
    replayable = serializers.BooleanField()
    actor = serializers.CharField()
    on_behalf_of = serializers.CharField(allow_null=True)
    model_decision = ObjectField(allow_null=True)
    tool_result = ObjectField()


class RunReceiptListSerializer(serializers.Serializer[Any]):
    """All attempts of a receipt, oldest first; never more than one page."""

    results = RunReceiptSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


class RunLinksSerializer(serializers.Serializer[Any]):
    self = serializers.CharField()
    receipts = serializers.CharField()


class RunSummarySerializer(serializers.Serializer[Any]):
    """One execution of a workflow."""

    run_id = serializers.UUIDField()
    workflow = serializers.CharField()
    trigger = serializers.ChoiceField(choices=Trigger.choices)
    parent_run_id = serializers.UUIDField(allow_null=True)
    actor = serializers.CharField()
    slot = serializers.DateTimeField(allow_null=True)
    started_at = serializers.DateTimeField()
    finished_at = serializers.DateTimeField(allow_null=True)
    manifest = ObjectField()
    links = RunLinksSerializer()


class ListedReceiptSerializer(serializers.Serializer[Any]):
    """A receipt as its run's manifest lists it."""

    receipt_id = serializers.UUIDField()
    ticket_id = serializers.CharField()
    contract = serializers.CharField()
    status = serializers.ChoiceField(choices=STATUSES)
    outcome = serializers.ChoiceField(choices=OUTCOMES, allow_null=True)
    error_code = serializers.CharField(allow_null=True)
    error_reason = serializers.CharField(allow_null=True)
    result_ref = serializers.CharField(allow_null=True)
    attempt = serializers.IntegerField()


class FailureCountSerializer(serializers.Serializer[Any]):
    """Receipts of a run that failed alike."""

    error_code = serializers.CharField()
    error_reason = serializers.CharField(allow_null=True)
    sentence = serializers.CharField()
    retrying = serializers.BooleanField(help_text="the system continues them by itself")
    receipts = serializers.IntegerField()


class ProgressSerializer(serializers.Serializer[Any]):
    """How far a workflow's run is."""

    planned = serializers.IntegerField(allow_null=True, help_text="null until it has chosen its tickets")
    opened = serializers.IntegerField()
    applied = serializers.IntegerField()
    failed = serializers.IntegerField()
    retrying = serializers.IntegerField()
    pending = serializers.IntegerField()
    finished_at = serializers.DateTimeField(allow_null=True)
    failures = FailureCountSerializer(many=True)


class RunSerializer(RunSummarySerializer):
    """A run with its receipts: the manifest. Of a workflow's run the first 200, the rest behind `links.receipts`."""

    progress = ProgressSerializer(allow_null=True, help_text="null where the run is one press")
    receipts = ListedReceiptSerializer(many=True)


class RunWithProgressSerializer(RunSummarySerializer):
    """A workflow's run without its receipts."""

    progress = ProgressSerializer()


class WorkflowLinksSerializer(serializers.Serializer[Any]):
    runs = serializers.CharField()


class WorkflowSerializer(serializers.Serializer[Any]):
    """A scheduled workflow."""

    name = serializers.CharField()
    title = serializers.CharField()
    tool = serializers.CharField()
    cron = serializers.CharField(help_text="five fields, on the zone's wall clock")
    zone = serializers.CharField(help_text="IANA name")
    since = serializers.DateTimeField(allow_null=True, help_text="on this schedule; null: no worker has seen it yet")
    next_slot = serializers.DateTimeField()
    last_run = RunWithProgressSerializer(allow_null=True)
    missing = serializers.ListField(
        child=serializers.DateTimeField(), help_text="slots that are owed and have no run, newest first, at most 10"
    )
    links = WorkflowLinksSerializer()


class WorkflowListSerializer(serializers.Serializer[Any]):
    """All workflows; never more than one page."""

    results = WorkflowSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    previous = serializers.CharField(allow_null=True)


class EventSerializer(serializers.Serializer[Any]):
    """One narration event."""

    event = serializers.CharField()
    data = ObjectField()  # type: ignore[assignment]  # the wire's name


class ProblemSerializer(serializers.Serializer[Any]):
    """A refusal or failure, RFC 9457."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    code = serializers.ChoiceField(choices=sorted(BY_CODE))
    retryable = serializers.BooleanField()
    owner = serializers.CharField()
    next_step = serializers.CharField()
    reason = serializers.ChoiceField(choices=sorted(REASONS), required=False)
    reason_detail = serializers.CharField(required=False)
    receipt_id = serializers.UUIDField(required=False)
    fields = serializers.DictField(child=serializers.CharField(), required=False)  # type: ignore[assignment]

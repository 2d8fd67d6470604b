"""What is known of a receipt before the model is called: put together in one way for presses, follow-ons, replays."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.conf import settings

from receipts import ledger
from receipts.contracts import Tool
from receipts.manifest import manifest
from receipts.models import Trigger
from receipts.presses import Input, fingerprint
from receipts.redaction import input_hash
from receipts.sealing import sealer


def opening_of(
    *,
    tool: Tool,
    subject: str,
    given: Input,
    user_id: uuid.UUID,
    key: str,
    trigger: str | Trigger,
    queued: bool,
    route: str = "",
    on_behalf_of_id: uuid.UUID | None = None,
    parent_run_id: uuid.UUID | None = None,
    also: Mapping[str, Any] | None = None,
) -> ledger.Opening:
    """The receipt's identity, its sealed input, its run's manifest and its time to begin or to end.

    `route`: what its fingerprint stands for, the tool's name unless told otherwise. `also`: more for the manifest.
    """
    return ledger.Opening(
        user_id=user_id,
        idempotency_key=key,
        fingerprint=fingerprint(route=route or tool.name, subject=subject, given=given),
        tool=tool,
        subject=subject,
        input_hash=input_hash(subject, given.text),
        workflow=tool.name,
        trigger=str(trigger),
        manifest=manifest(tool) | dict(also or {}),
        sealed=sealer().seal(given.as_json()),
        sealed_days=settings.SEALED_INPUT_DAYS,
        seconds=settings.START_BY_SECONDS if queued else settings.ATTEMPT_DEADLINE_SECONDS,
        queued=queued,
        on_behalf_of_id=on_behalf_of_id,
        parent_run_id=parent_run_id,
    )

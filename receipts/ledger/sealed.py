"""Sealed inputs under another key. They come with their receipt (`opening`), and `events` deletes them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from receipts.statements import fetch_row

_RESEAL = """
WITH anew AS (
  UPDATE sealed_inputs SET token = given.new
  FROM unnest(%(ids)s::uuid[], %(old)s::bytea[], %(new)s::bytea[]) AS given (id, old, new)
  WHERE receipt_id = given.id AND token = given.old
  RETURNING 1),
event AS (
  INSERT INTO audit_events (at, actor_id, verb, detail)
  SELECT clock_timestamp(), %(actor)s::uuid, 'rotate', jsonb_build_object('sealed_inputs', count(*))
  FROM anew HAVING count(*) > 0)
SELECT count(*) FROM anew
"""


def reseal(tokens: Mapping[uuid.UUID, tuple[bytes, bytes]], actor_id: uuid.UUID | None = None) -> int:
    """Put new tokens in the place of old ones, with the audit event, in one statement. How many.

    Args:
        tokens: receipt id → (the token that was read, the same input under another key). A row whose
            token is another by now, or that is gone, is left as it is.
    """
    old: list[Any] = [read for read, _ in tokens.values()]
    new: list[Any] = [anew for _, anew in tokens.values()]
    row = fetch_row(_RESEAL, {"ids": list(tokens), "old": old, "new": new, "actor": actor_id})
    return int(row[0]) if row else 0

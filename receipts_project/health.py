"""Is the process alive, and can it serve? For launchers, load balancers and orchestrators; no sign-in."""

from __future__ import annotations

import os

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from psycopg_pool import PoolTimeout

from tickets.models import Ticket

#: Set by the launcher, which seeds. Elsewhere an empty board is a board.
DEMO_DATA = os.environ.get("DEMO_DATA") == "1"
_NO_STORE = {"Cache-Control": "no-store"}


@require_safe
def livez(_request: HttpRequest) -> JsonResponse:
    """The process answers. Does not ask the database: a database outage is no reason to kill the web."""
    return JsonResponse({"status": "alive"}, headers=_NO_STORE)


@never_cache
@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """200 when the database answers, every migration is applied and, under `make run`, the demo tickets are there."""
    checks = {"database": False, "migrations": False, "tickets": False}
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        checks["database"] = True
        checks["migrations"] = _migrated()
        if checks["migrations"]:
            checks["tickets"] = Ticket.objects.exists() or not DEMO_DATA
    except (Error, PoolTimeout):
        pass  # the checks say which one
    ready = all(checks.values())
    body = {"status": "ready" if ready else "not ready", "checks": checks}
    return JsonResponse(body, status=200 if ready else 503, headers=_NO_STORE)


def _migrated() -> bool:
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())

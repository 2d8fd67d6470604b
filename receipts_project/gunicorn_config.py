"""The web process of `make run`: one worker process, many threads.

A press holds its thread while the provider writes, up to 30 s, so the threads are the cap on what is in
flight, plus the open streams, plus some for pages and refusals. Threads are made when they are first needed.

No preload: a connection pool must not be shared by a fork. No max_requests: a restart waits for open streams,
and everybody else waits for the restart.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
from typing import Any

from django.conf import settings

from receipts_project.postgres_keeper import PR_SET_PDEATHSIG

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "receipts_project.settings")

wsgi_app = "receipts_project.wsgi:application"
_host = os.environ.get("HOST") or "127.0.0.1"
bind = f"{f'[{_host}]' if ':' in _host else _host}:{os.environ.get('PORT') or '8000'}"
workers = 1
worker_class = "receipts_project.gunicorn_worker.PatientWorker"
threads = settings.MAX_IN_FLIGHT + settings.MAX_STREAMS + 32
worker_connections = threads + 512  # connections that wait between two requests hold no thread
graceful_timeout = 35  # an attempt ends within 30 s; settling it takes moments
control_socket_disable = True
#: Set by the launcher, which alone decides when this process stops.
SUPERVISED = os.environ.get("RECEIPTS_SUPERVISED") == "1"


def end_with_master() -> None:
    """A worker that outlives its killed master would keep the port for as long as its requests take (Linux)."""
    if SUPERVISED and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def post_fork(server: Any, worker: Any) -> None:
    end_with_master()


def post_worker_init(worker: Any) -> None:
    """Nothing unsound is served; the server then ends, with the sentences and a status, instead of trying again.

    What start-up made lives as long as the process: the collector need not walk it again and again.
    """
    from gunicorn.arbiter import Arbiter

    from receipts.checks import require_sound

    try:
        require_sound()
    except SystemExit as wrong:
        print(wrong, file=sys.stderr, flush=True)
        sys.exit(Arbiter.WORKER_BOOT_ERROR)
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


def worker_exit(server: Any, worker: Any) -> None:
    """Attempts outlive their requests; without this they would end unsettled and wait for the sweep."""
    from receipts import runner

    runner.drain()

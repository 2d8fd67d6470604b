"""The database of the test run: a throw-away embedded server, unless DATABASE_URL names one.

One server for the whole run: the controller starts it, xdist's workers find it in the environment, and so do
the processes that tests start. Its data are flushed nowhere and deleted at the end.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import environ
import pytest
from django.conf import settings

from receipts_project import embedded_postgres
from tests.ledger_flush import ledger_may_be_flushed  # noqa: F401 - a fixture of every test

SERVER = pytest.StashKey[embedded_postgres.Server]()


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("DATABASE_URL") or config.getoption("collectonly"):
        return
    # One folder a run: two runs in one checkout must not meet in one test database.
    folder = Path(tempfile.mkdtemp(prefix="receipts-test-"))
    folder.chmod(0o711)  # as root, the user that PostgreSQL runs as must get through
    try:
        server = embedded_postgres.ensure(folder / "data", durable=False)
    except embedded_postgres.EmbeddedPostgresError as error:
        shutil.rmtree(folder)
        raise pytest.UsageError(str(error)) from error
    config.stash[SERVER] = server
    os.environ["DATABASE_URL"] = server.dsn
    use_database(server.dsn)


def pytest_unconfigure(config: pytest.Config) -> None:
    server = config.stash.get(SERVER, None)
    if server is None:
        return
    server.stop()
    embedded_postgres.remove(server.place.data_dir)
    shutil.rmtree(server.place.data_dir.parent, ignore_errors=True)
    del os.environ["DATABASE_URL"]


def use_database(url: str) -> None:
    """Point Django there, in place: pytest-django read the settings before any conftest could say a word."""
    named = environ.Env.db_url_config(url)
    database = settings.DATABASES["default"]
    database |= {key: named[key] for key in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
    database["OPTIONS"] |= named.get("OPTIONS", {})
    settings.DATABASE_URL = url

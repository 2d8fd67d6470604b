"""The web process against clients that mean it no good: real sockets, few threads."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.db import connection

from receipts_project import gunicorn_worker
from receipts_project.gunicorn_worker import READ_SECONDS, PatientSocket, StalledError, whole_bodies
from tests.flow.web import ROOT, dsn, free_port
from tests.journeys.servers import Web

THREADS = 8 + 4 + 32  # MAX_IN_FLIGHT, MAX_STREAMS, and what gunicorn_config adds
POST = b"POST /login/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="module")
def web(django_db_setup: None, django_db_blocker: pytest.FixtureDef, logs: Path) -> Iterator[Web]:
    with django_db_blocker.unblock():
        url = dsn()
    running = Web({"MAX_IN_FLIGHT": "8", "MAX_STREAMS": "4"}, logs=logs, database_url=url)
    yield running
    running.stop()


def connected(web: Web, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", int(web.base.rpartition(":")[2])))
    client.sendall(sent)
    return client


@pytest.mark.processes
class TestStalledClients:
    @pytest.mark.parametrize(
        "sent", [b"GET /livez HTTP/1.1\r\nHost: loc", POST + b"\r\nusername=", b""], ids=["head", "body", "silent"]
    )
    def test_half_requests_do_not_keep_the_threads(self, web: Web, logs: Path, sent: bytes):
        clients = [connected(web, sent) for _ in range(THREADS + 8)]
        try:
            began = time.monotonic()
            assert httpx.get(f"{web.base}/livez", timeout=READ_SECONDS + 5).status_code == 200
            assert time.monotonic() - began < READ_SECONDS + 3, "one linger after another would take a minute"
            assert httpx.get(f"{web.base}/livez", timeout=READ_SECONDS + 5).status_code == 200
        finally:
            for client in clients:
                client.close()
        assert "Traceback" not in (logs / "web.log").read_text()

    def test_a_trickle_is_no_request(self, web: Web):
        client = connected(web, b"GET /livez HTTP/1.1\r\nX-Slow: ")
        began = time.monotonic()
        client.settimeout(0.5)
        with pytest.raises(ConnectionError):  # noqa: PT012 - it ends while we send
            while time.monotonic() - began < READ_SECONDS + 5:
                client.sendall(b"x")
                try:
                    assert client.recv(100) != b"", "closed"
                except TimeoutError:
                    continue
                except AssertionError:
                    raise ConnectionError from None
        assert READ_SECONDS - 1 < time.monotonic() - began < READ_SECONDS + 3

    def test_a_body_that_stalls_is_told_so(self, web: Web):
        client = connected(web, POST + b"\r\nusername=")
        client.settimeout(READ_SECONDS + 5)
        assert client.recv(100).startswith(b"HTTP/1.1 408 ")

    def test_a_body_that_was_cut_off_is_no_body(self, web: Web):
        client = connected(web, POST + b"Content-Type: application/x-www-form-urlencoded\r\n\r\nusername=lead")
        client.shutdown(socket.SHUT_WR)
        client.settimeout(10)
        assert client.recv(100).startswith(b"HTTP/1.1 400 ")

    def test_who_keeps_a_closed_connection_open_delays_nobody(self, web: Web):
        clients = [connected(web, b"nonsense\r\n\r\n") for _ in range(20)]
        began = time.monotonic()
        assert httpx.get(f"{web.base}/livez", timeout=60).status_code == 200
        assert time.monotonic() - began < 3
        for client in clients:
            client.close()


@pytest.mark.processes
def test_an_unsound_product_is_not_served(transactional_db, tmp_path: Path):
    """The database allows another tool than the code has: one sentence and a status, no second try."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'receipt_tool_allowed'")
        sound = cursor.fetchone()[0]
        cursor.execute("ALTER TABLE tool_receipts DROP CONSTRAINT receipt_tool_allowed")
        cursor.execute("ALTER TABLE tool_receipts ADD CONSTRAINT receipt_tool_allowed CHECK (tool_name = 'another')")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "gunicorn", "--config", "python:receipts_project.gunicorn_config"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": dsn(), "PORT": str(free_port()), "DATA_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE tool_receipts DROP CONSTRAINT receipt_tool_allowed")
            cursor.execute(f"ALTER TABLE tool_receipts ADD CONSTRAINT receipt_tool_allowed {sound}")
    assert done.returncode != 0
    assert done.stderr.count("the database allows ['another']") == 1
    assert done.stderr.count("Booting worker") == 1
    assert "Traceback" not in done.stderr


class TestPatientSocket:
    def test_a_send_that_nobody_reads_ends(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(gunicorn_worker, "SEND_SECONDS", 0.3)
        ours, theirs = socket.socketpair()
        with theirs, PatientSocket(fileno=ours.detach()) as client:
            began = time.monotonic()
            with pytest.raises(StalledError):
                client.sendall(b"x" * 8_000_000)
            assert time.monotonic() - began < 3

    def test_a_slow_reader_gets_everything(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setattr(gunicorn_worker, "SEND_SECONDS", 0.5)
        (tmp_path / "file").write_bytes(bytes(3_000_000))
        ours, theirs = socket.socketpair()
        got = 0

        def read_slowly() -> None:
            nonlocal got
            while piece := theirs.recv(200_000):
                got += len(piece)
                time.sleep(0.05)

        reader = threading.Thread(target=read_slowly)
        reader.start()
        with PatientSocket(fileno=ours.detach()) as client, open(tmp_path / "file", "rb") as file:
            assert client.sendfile(file, offset=1, count=2_999_000) == 2_999_000
        reader.join(30)
        theirs.close()
        assert got == 2_999_000

    def test_the_wait_for_a_provider_counts_for_neither(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(gunicorn_worker, "READ_SECONDS", 0.1)
        ours, theirs = socket.socketpair()
        with theirs, PatientSocket(fileno=ours.detach()) as client:
            client.expect_request()
            theirs.sendall(b"request")
            assert client.recv(100) == b"request"
            time.sleep(0.3)
            client.sendall(b"answer")
            assert theirs.recv(100) == b"answer"


def test_a_body_longer_than_the_application_reads_is_left_to_it(settings):
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 10
    seen = {}
    serve = whole_bodies(lambda environ, start: seen.update(environ) or [])
    serve({"CONTENT_LENGTH": "11", "wsgi.input": None}, lambda *_: None)
    assert seen["wsgi.input"] is None

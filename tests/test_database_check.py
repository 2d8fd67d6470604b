"""Whether the database answers: a server that is starting is waited for, any other refusal is one sentence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from receipts_project.database_check import DatabaseUnusableError, require_database


class Refusing:
    """A server that speaks enough of PostgreSQL's protocol to refuse, each time in the next words."""

    def __init__(self, *refusals: str) -> None:
        self.asked = 0
        self._refusals = refusals
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                length = int.from_bytes(connection.recv(4), "big")
                asked = connection.recv(length - 4)
                if asked[:4] in (b"\x04\xd2\x16\x2f", b"\x04\xd2\x16\x30"):  # SSL, GSS: not here
                    connection.sendall(b"N")
                    length = int.from_bytes(connection.recv(4), "big")
                    connection.recv(length - 4)
                words = self._refusals[min(self.asked, len(self._refusals) - 1)]
                self.asked += 1
                fields = b"".join(f"{name}{value}\0".encode() for name, value in (("S", "FATAL"), ("M", words)))
                connection.sendall(b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def refusing() -> Iterator[Refusing]:
    server = Refusing("the database system is starting up", 'role "nobody" does not exist')
    yield server
    server.close()


def test_waits_while_it_starts_and_then_says_what_is_wrong(refusing: Refusing) -> None:
    with pytest.raises(
        DatabaseUnusableError, match=r'no database at 127\.0\.0\.1:\d+ \(role "nobody" does not exist\)'
    ):
        require_database(f"postgresql://nobody@127.0.0.1:{refusing.port}/receipts?gssencmode=disable&sslmode=disable")

    assert refusing.asked == 2

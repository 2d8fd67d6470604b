"""gunicorn's threaded worker, with an end to its patience.

As it comes, a thread waits for ever: for the rest of a request that is never sent, for a client that does not read.
As many such sockets as there are threads, from anybody, and the server answers nobody. Here a request has to arrive
whole within `READ_SECONDS`, each `SEND_BYTES` of an answer have to leave within `SEND_SECONDS`, and a connection is
closed by the thread that served it: gunicorn lingers up to 2 s for each in the one thread that accepts all others.

What a request waits for inside the product (a provider, up to 30 s) is no socket's wait and has its own budgets.
"""

from __future__ import annotations

import errno
import io
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from gunicorn import util
from gunicorn.workers.gthread import TConn, ThreadWorker

#: From the first byte to the last of a request, head and body: 1 MiB on a line of 1 Mbit/s takes 8.
READ_SECONDS = 10.0
#: A reader slower than 2 kB/s is no reader.
SEND_SECONDS, SEND_BYTES = 30.0, 65_536
#: After the last answer, for bytes of the client that are still under way (RFC 9112, 9.6).
LINGER_SECONDS = 1.0

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class StalledError(ConnectionResetError):
    """The other side does nothing. A reset to those who look at `errno`: gunicorn then closes without a word."""

    def __init__(self, what: str) -> None:
        super().__init__(errno.ECONNRESET, what)


class PatientSocket(socket.socket):
    """A client's socket: blocking, but not for ever."""

    read_by: float = 0.0
    """When the request has to be here, as `time.monotonic` counts."""
    stalled = False

    def expect_request(self) -> None:
        self.read_by = time.monotonic() + READ_SECONDS

    def recv(self, *arguments: Any) -> bytes:
        """Raises: StalledError after `read_by`, however steadily single bytes came in."""
        left = self.read_by - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self.settimeout(left)
            return super().recv(*arguments)
        except TimeoutError:
            self.stalled = True
            raise StalledError("the request did not arrive in time") from None

    def sendall(self, data: Any, flags: int = 0) -> None:
        """Raises: StalledError where the client does not read."""
        rest = memoryview(data).cast("B")
        while rest:
            self.settimeout(SEND_SECONDS)
            try:
                super().sendall(rest[:SEND_BYTES], flags)
            except TimeoutError:
                self.stalled = True
                raise StalledError("the client does not read") from None
            rest = rest[SEND_BYTES:]

    def sendfile(self, file: Any, offset: int = 0, count: int | None = None) -> int:
        """By `sendall`, for its limit. Files are small and compressed here: the kernel's short cut gains nothing."""
        sent = 0
        file.seek(offset)
        while count is None or sent < count:
            piece = file.read(SEND_BYTES if count is None else min(SEND_BYTES, count - sent))
            if not piece:
                break
            self.sendall(piece)
            sent += len(piece)
        return sent


class PatientConnection(TConn):  # type: ignore[misc]  # gunicorn has no types
    """Closed once, and without waiting where the other side stalled."""

    closed = False

    def close(self, graceful: bool = False) -> None:
        if self.closed:
            return
        self.closed = True
        if graceful and not self.sock.stalled:
            self.sock.read_by = time.monotonic() + LINGER_SECONDS
            util.close_graceful(self.sock, timeout=LINGER_SECONDS)
        else:
            util.close(self.sock)


class PatientWorker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """`worker_class` of the product's web process."""

    wsgi: Application

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.wsgi = whole_bodies(self.wsgi)

    def accept(self, listener: Any) -> None:
        try:
            accepted, address = listener.accept()
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.ECONNABORTED, errno.EWOULDBLOCK):
                raise
            return
        client = PatientSocket(accepted.family, accepted.type, accepted.proto, fileno=accepted.detach())
        self.nr_conns += 1
        self.enqueue_req(PatientConnection(self.cfg, client, address, listener.getsockname()))

    def handle(self, conn: PatientConnection) -> Any:
        """In a thread of the pool."""
        conn.sock.expect_request()
        again = super().handle(conn)
        if again is False:
            conn.close(graceful=True)
        return again


def whole_bodies(application: Application) -> Application:
    """Bodies arrive before the application begins: 408 for one that stalls, 400 for one that was cut off.

    gunicorn hands a cut-off body on as if it were whole, and half of a form is a form too. One that is longer than the
    application reads is left where it is; the application refuses it by its length.
    """

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        length = environ.get("CONTENT_LENGTH") or "0"
        if not length.isdigit() or not 0 < int(length) <= settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return application(environ, start_response)
        try:
            body = environ["wsgi.input"].read(int(length))
        except StalledError:
            return refuse(start_response, "408 Request Timeout")
        if len(body) < int(length):
            return refuse(start_response, "400 Bad Request")
        environ["wsgi.input"] = io.BytesIO(body)
        return application(environ, start_response)

    return serve


def refuse(start_response: Callable[..., Any], status: str) -> Iterable[bytes]:
    text = f"{status}\n".encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(text)))])
    return [text]

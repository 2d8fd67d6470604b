"""A mail server for the delivery tests: a real socket that says no, hangs up or falls silent where a test wants it."""

from __future__ import annotations

import socketserver
import threading
from contextlib import suppress
from email import message_from_bytes, policy
from email.message import EmailMessage

#: The steps of a delivery, in their order; `dot` is the end of the message.
STEPS = ("connect", "helo", "mail", "rcpt", "data", "dot")
FINE = {"connect": "220 ready", "helo": "250 hello", "data": "354 go on"}

HANG_UP = "hang up"


class MailServer:
    """Takes every message, unless told otherwise of a step."""

    def __init__(self) -> None:
        self.answers: dict[str, str] = {}
        """Step → what to answer there, or HANG_UP."""
        self.messages: list[bytes] = []
        """What came whole, to its dot; whatever was answered then."""
        self.gates = {step: threading.Event() for step in STEPS}
        for gate in self.gates.values():
            gate.set()
        self._arrivals: list[str] = []
        self._arrived = threading.Condition()
        server = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(ConnectionError, ValueError):  # the other side is gone
                    server._converse(self)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"smtp://127.0.0.1:{self.port}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def _converse(self, client: socketserver.StreamRequestHandler) -> None:
        if not self._step(client, "connect"):
            return
        while line := client.rfile.readline():
            verb = line.split()[0].upper().decode() if line.split() else ""
            step = {"EHLO": "helo", "HELO": "helo", "MAIL": "mail", "RCPT": "rcpt", "DATA": "data"}.get(verb)
            if step is None:
                client.wfile.write(b"221 bye\r\n" if verb == "QUIT" else b"250 fine\r\n")
                continue
            if not self._step(client, step):
                return
            if step == "data" and self.answers.get("data", FINE["data"]).startswith("354"):
                self._take(client)
                if not self._step(client, "dot"):
                    return

    def _take(self, client: socketserver.StreamRequestHandler) -> None:
        lines = []
        while (line := client.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line)
        if line:
            self.messages.append(b"".join(lines))

    def _step(self, client: socketserver.StreamRequestHandler, step: str) -> bool:
        """False: hung up."""
        with self._arrived:
            self._arrivals.append(step)
            self._arrived.notify_all()
        self.gates[step].wait(60)
        answer = self.answers.get(step, FINE.get(step, "250 fine"))
        if answer == HANG_UP:
            return False
        client.wfile.write(f"{answer}\r\n".encode())
        return True

    def wait_for(self, step: str, seconds: float = 30) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: step in self._arrivals, seconds), f"nobody came to {step}"

    @property
    def conversations(self) -> int:
        return self._arrivals.count("connect")

    def mail(self) -> EmailMessage:
        """The one message that came."""
        (raw,) = self.messages
        parsed = message_from_bytes(raw, policy=policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed

    def close(self) -> None:
        for gate in self.gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()

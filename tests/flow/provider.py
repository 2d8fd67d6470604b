"""A provider for the flow's tests: a real HTTP server whose answers and timing the test decides."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

GOOD = {"ticket_id": "TCK-1008", "summary": "Customer is still blocked on the SSO login.", "assignee": "ada"}


def completion(arguments: Any, finish: str = "stop") -> dict[str, Any]:
    content = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": "c",
        "object": "chat.completion",
        "model": "test-model",
        "choices": [
            {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content}},
        ],
        "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
    }


Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class Provider:
    """Counts its calls; holds them at a gate while the gate is shut."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.answer: Answer = lambda request: (200, completion(GOOD))
        self.headers: dict[str, str] = {}
        self.gate = threading.Event()
        self.gate.set()
        self._arrived = threading.Condition()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with provider._arrived:
                    provider.requests.append(json.loads(body))
                    provider._arrived.notify_all()
                provider.gate.wait(30)
                status, answer = provider.answer(json.loads(body))
                raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(raw)))
                    for name, value in provider.headers.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(raw)
                except ConnectionError:
                    pass  # the caller ran out of patience

            def log_message(self, *args: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1/chat/completions"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def calls(self) -> int:
        return len(self.requests)

    def says(self, arguments: Any, finish: str = "stop") -> None:
        self.answer = lambda request: (200, completion(arguments, finish))

    def fills(self, **arguments: Any) -> None:
        """What it answers each tool by its wire name: `fills(close_ticket_v1={…})`."""
        self.answer = lambda request: (200, completion(arguments[request["response_format"]["json_schema"]["name"]]))

    def fails(self, status: int, body: Any = None) -> None:
        self.answer = lambda request: (status, body or {"error": {"message": "no"}})

    def wait_for_calls(self, count: int, seconds: float = 20) -> None:
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, seconds), "the provider was not called"

    def close(self) -> None:
        self.gate.set()
        self._server.shutdown()
        self._server.server_close()

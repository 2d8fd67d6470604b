"""Between the product and its embedded PostgreSQL: starts the server, stops it after its last user.

Run as a file, by `embedded_postgres`, with one argument of JSON:
`argv` (list of str), `users` (path of the lock that every user of the server holds shared), `uid` and `gid`
(int, or null for "as myself").

Why a process of its own. The kernel releases a lock however its holder ends, SIGKILL included, so "the last
user is gone" needs no book-keeping. And the parent-death signal counts from the *thread* that forked: here
there is one thread for the server's whole life. The keeper stays in its starter's process group; killing that
group kills the keeper, and the kernel then stops the server. Standard library only, and nothing of the
project.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import Any

PR_SET_PDEATHSIG = 1
#: Seconds for a clean shutdown (its checkpoint), then for an immediate one.
CLEAN_SECONDS, IMMEDIATE_SECONDS = 25.0, 5.0


class ServerEndedError(Exception):
    """PostgreSQL ended by itself."""


def stop_with_keeper() -> None:
    """Runs in the server, after its change of user (which would clear this): a fast shutdown on our death."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)


def start(argv: list[str], uid: int | None, gid: int | None) -> subprocess.Popen[bytes]:
    """The server in a session of its own (Ctrl-C is not for it), with a clean environment, from `/`."""
    as_user: dict[str, Any] = {} if uid is None else {"user": uid, "group": gid, "extra_groups": []}
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        start_new_session=True,
        preexec_fn=stop_with_keeper,  # this process has one thread
        **as_user,
    )


def stop(server: subprocess.Popen[bytes]) -> None:
    for signal_number, seconds in ((signal.SIGINT, CLEAN_SECONDS), (signal.SIGQUIT, IMMEDIATE_SECONDS)):
        server.send_signal(signal_number)
        try:
            server.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
        return
    server.kill()
    server.wait()


def main() -> int:
    order = json.loads(sys.argv[1])
    # A signal to the whole group must not take the database from under processes that are still finishing.
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_IGN)
    users = os.open(order["users"], os.O_RDWR)

    ended = False

    def server_ended(_number: int, _frame: FrameType | None) -> None:
        nonlocal ended
        if not ended:
            ended = True
            raise ServerEndedError

    server: subprocess.Popen[bytes] | None = None
    try:
        signal.signal(signal.SIGCHLD, server_ended)
        server = start(order["argv"], order["uid"], order["gid"])
        fcntl.flock(users, fcntl.LOCK_EX)  # returns when nobody holds it shared: the last user is gone
        ended = True
    except ServerEndedError:
        return 1 if server is None else server.wait() or 0
    stop(server)
    return 0  # the exclusive lock goes with this process: who waits for it finds the server stopped


if __name__ == "__main__":
    sys.exit(main())

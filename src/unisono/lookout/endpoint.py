"""An agent whose store is out of reach waits in it without end: nobody else can tell it."""

import socket
import threading
import time
from collections.abc import Callable

import psutil

LOOK_SECONDS = 2.0
UNREACHED_SECONDS = 20.0


def watch_endpoint(host: str, port: int, give_up: Callable[[str], None]) -> None:
    """Call `give_up` with words, from a thread, when an idle agent's store is out of reach.

    An agent is idle when none of its workers is there any more; while they are, they look
    after themselves. One that can reach its store waits for other machines: that is allowed.
    """
    arguments = (host, port, give_up)
    threading.Thread(target=_watch, args=arguments, name="endpoint", daemon=True).start()


def _watch(host: str, port: int, give_up: Callable[[str], None]) -> None:
    had_workers, unreached_since = False, 0.0
    while True:
        time.sleep(LOOK_SECONDS)
        workers = bool(psutil.Process().children())
        had_workers = had_workers or workers
        if workers or not had_workers or _answers(host, port):
            unreached_since = 0.0
        elif not unreached_since:
            unreached_since = time.monotonic()
        elif time.monotonic() - unreached_since > UNREACHED_SECONDS:
            give_up(f"the store of torchrun at {host}:{port} is out of reach")
            return


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=LOOK_SECONDS).close()
    except OSError:
        return False
    return True

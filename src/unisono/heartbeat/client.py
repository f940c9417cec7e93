"""The way from a watchman to that of rank 0: one question, one answer, one connection.

Every beat is a connection of its own, and a new one does not wait for the last: nothing has
to be put together again after a link was down, and a packet lost on a full link costs one
beat, not all that follow.

An agent whose store is out of reach waits in it without end: nobody else can tell it.
"""

import socket
import threading
import time
from collections.abc import Callable

import psutil

from unisono.heartbeat.loss_detector import SILENT_SHARE, HeartbeatTimes
from unisono.heartbeat.messages import (
    LONGEST_LINE,
    Heartbeat,
    Loss,
    Reply,
    SidecarConfig,
    from_line,
    to_line,
)


def ask(address: str, port: int, report: Heartbeat, seconds: float) -> Reply | None:
    """Tell rank 0's watchman what we know; return its answer, or None if there was none.

    A connection that is refused is an error: nobody listens there any more.
    """
    try:
        with socket.create_connection((address, port), timeout=seconds) as connection:
            connection.sendall(to_line(report))
            with connection.makefile("rb") as stream:
                answer = from_line(stream.readline(LONGEST_LINE), Reply)
    except ConnectionRefusedError:
        raise
    except OSError:
        return None
    return answer if answer is not None and answer.token == report.token else None


class HeartbeatClient:
    """What a watchman of another rank than 0 knows through that of rank 0."""

    def __init__(self, orders: SidecarConfig) -> None:
        self._orders, self._lock = orders, threading.Lock()
        self._clock = HeartbeatTimes(time.monotonic())
        self._began = self._clock.awake(time.monotonic())
        self._heard = 0.0
        self._lost: tuple[Loss, ...] = ()
        self._acknowledged: Heartbeat | None = None
        self._refused = False
        self._open = threading.BoundedSemaphore(max(4, int(2 * orders.limit)))

    def beat(self, report: Heartbeat) -> None:
        """Send a report on its way; the answer may come later, or never."""
        if self._open.acquire(blocking=False):
            threading.Thread(target=self._exchange, args=(report,), daemon=True).start()

    def lost(self) -> tuple[Loss, ...]:
        """Return who is lost, by what rank 0's watchman says or because it is silent."""
        with self._lock:
            silence = self._clock.awake(time.monotonic()) - self._heard
            gone = self._heard and silence > SILENT_SHARE * self._orders.limit
            if not self._lost and gone:
                detail = f"silent for {silence:.0f} s, and with it all who are reached there"
                self._lost = (Loss(0, "machine or link gone", detail),)
            return self._lost

    def silent_from_the_start(self) -> float:
        """Return the seconds for which rank 0's watchman has never answered."""
        with self._lock:
            return 0.0 if self._heard else self._clock.awake(time.monotonic()) - self._began

    def is_settled(self, report: Heartbeat) -> bool:
        """Return whether rank 0's watchman knows `report`, or is gone for good."""
        with self._lock:
            return self._acknowledged == report or self._refused

    def _exchange(self, report: Heartbeat) -> None:
        orders, answer, refused = self._orders, None, False
        try:
            answer = ask(orders.address, orders.port, report, orders.limit)
        except ConnectionRefusedError:
            refused = True
        finally:
            self._open.release()
        with self._lock:
            self._refused = refused
            if answer is None:
                return
            self._heard = self._clock.awake(time.monotonic())
            self._lost = self._lost or answer.lost
            self._acknowledged = report


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

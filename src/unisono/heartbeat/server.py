"""Rank 0's watchman as the others know it: it hears them all and tells each who is lost."""

import hmac
import socket
import threading
import time

from unisono.heartbeat.loss_detector import HeartbeatTimes, LossDetector
from unisono.heartbeat.messages import (
    LONGEST_LINE,
    GroupMember,
    Heartbeat,
    Loss,
    Reply,
    SidecarConfig,
    from_line,
    to_line,
)

CALL_SECONDS = 5.0
CALLS_AT_ONCE = 256


class HeartbeatServer:
    """Answers calls on the socket that rank 0's worker has opened."""

    def __init__(self, orders: SidecarConfig) -> None:
        self._orders, self._lock = orders, threading.Lock()
        self._clock = HeartbeatTimes(time.monotonic())
        self._ledger = LossDetector(orders.members, orders.limit, self._now())
        self._calls = threading.BoundedSemaphore(CALLS_AT_ONCE)
        self._socket = socket.socket(fileno=orders.listen)
        self._socket.settimeout(None)
        threading.Thread(target=self._serve, daemon=True).start()

    def beat(self, report: Heartbeat) -> None:
        """Note what is known of rank 0."""
        with self._lock:
            self._ledger.hear(report, self._now())

    def lost(self) -> tuple[Loss, ...]:
        """Return who is lost."""
        with self._lock:
            return self._ledger.lost(self._now())

    def unheard(self) -> tuple[GroupMember, ...]:
        """Return who should have called by now and never has."""
        with self._lock:
            return self._ledger.unheard(self._now())

    def is_settled(self, report: Heartbeat) -> bool:
        """Return whether everybody who can be told has been."""
        with self._lock:
            return self._ledger.is_settled(self._now())

    def _now(self) -> float:
        return self._clock.awake(time.monotonic())

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(0.1)
                continue
            if self._calls.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                connection.settimeout(CALL_SECONDS)
                report = from_line(stream.readline(LONGEST_LINE), Heartbeat)
                if report is None or not self._is_ours(report.token):
                    return
                with self._lock:
                    now = self._now()
                    self._ledger.hear(report, now)
                    lost = self._ledger.lost(now)
                connection.sendall(to_line(Reply(token=self._orders.token, lost=lost)))
        except OSError:
            return  # the caller is gone: it will call again, or be missed
        finally:
            self._calls.release()

    def _is_ours(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._orders.token.encode())

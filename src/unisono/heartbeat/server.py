"""The heartbeat server of rank 0's sidecar: it hears all ranks and tells each who is lost."""

import hmac
import socket
import threading
import time

from unisono.heartbeat.loss_detector import AwakeClock, LossDetector
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

CONNECTION_SECONDS = 5.0
CONNECTIONS_AT_ONCE = 256


class HeartbeatServer:
    """Accepts heartbeats on the socket that rank 0's worker has opened."""

    def __init__(self, config: SidecarConfig) -> None:
        self._config, self._lock = config, threading.Lock()
        self._clock = AwakeClock(time.monotonic())
        self._detector = LossDetector(config.members, config.limit, self._now())
        self._slots = threading.BoundedSemaphore(CONNECTIONS_AT_ONCE)
        self._socket = socket.socket(fileno=config.listen)
        self._socket.settimeout(None)
        threading.Thread(target=self._serve, daemon=True).start()

    def beat(self, heartbeat: Heartbeat) -> None:
        """Record the heartbeat of rank 0 itself."""
        with self._lock:
            self._detector.receive(heartbeat, self._now())

    def lost(self) -> tuple[Loss, ...]:
        """Return who is lost."""
        with self._lock:
            return self._detector.lost(self._now())

    def never_heard(self) -> tuple[GroupMember, ...]:
        """Return the ranks whose first heartbeat is overdue."""
        with self._lock:
            return self._detector.never_heard(self._now())

    def is_settled(self, heartbeat: Heartbeat) -> bool:
        """Return whether everybody who can be told has been told."""
        with self._lock:
            return self._detector.is_settled(self._now())

    def _now(self) -> float:
        return self._clock.read(time.monotonic())

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                time.sleep(0.1)
                continue
            if self._slots.acquire(blocking=False):
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()
            else:
                connection.close()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rb") as stream:
                connection.settimeout(CONNECTION_SECONDS)
                heartbeat = from_line(stream.readline(LONGEST_LINE), Heartbeat)
                if heartbeat is None or not self._is_ours(heartbeat.token):
                    return
                with self._lock:
                    now = self._now()
                    self._detector.receive(heartbeat, now)
                    lost = self._detector.lost(now)
                connection.sendall(to_line(Reply(token=self._config.token, lost=lost)))
        except OSError:
            return  # the client is gone: it will connect again, or be missed
        finally:
            self._slots.release()

    def _is_ours(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self._config.token.encode())

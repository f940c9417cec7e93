"""The heartbeat server of rank 0's sidecar: it hears all ranks and tells each who is lost."""

import socket
import threading
import time
from collections.abc import Callable

from unisono.heartbeat.loss_detector import AwakeClock, LossDetector
from unisono.heartbeat.messages import (
    GroupMember,
    Heartbeat,
    Loss,
    Reply,
    SidecarConfig,
    from_line,
    to_line,
)
from unisono.secure.channel import Channel
from unisono.secure.server import SecureServer

CONNECTION_SECONDS = 5.0
# While strangers fill the server, and for this long after that, silence does not count.
CROWDED_SECONDS = 3.0


class HeartbeatServer:
    """Accepts heartbeats on the socket that rank 0's worker has opened."""

    def __init__(self, config: SidecarConfig, tell: Callable[[str], None]) -> None:
        """Call `tell` about clients that did not know the secret."""
        self._config, self._lock = config, threading.Lock()
        self._clock = AwakeClock(time.monotonic())
        now = self._clock.read(time.monotonic())
        self._detector = LossDetector(
            config.members, config.limit, now, heard_before=config.replaces
        )
        listening = socket.socket(fileno=config.listen)
        self._server = SecureServer(listening, config.secret, self._answer, tell)

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
        """Return whether every rank that still answers knows of the loss."""
        with self._lock:
            return self._detector.is_settled(self._now())

    def _now(self) -> float:
        now = time.monotonic()
        is_crowded = now - self._server.crowded_at < CROWDED_SECONDS
        return self._clock.read(now, stands_still=is_crowded)

    def _answer(self, channel: Channel) -> None:
        heartbeat = from_line(channel.receive(CONNECTION_SECONDS), Heartbeat)
        if heartbeat is None:
            return
        with self._lock:
            now = self._now()
            self._detector.receive(heartbeat, now)
            lost = self._detector.lost(now)
        channel.send(to_line(Reply(lost=lost)), CONNECTION_SECONDS)

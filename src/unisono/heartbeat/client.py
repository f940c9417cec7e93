"""The heartbeat client: how a sidecar reaches that of rank 0.

Every heartbeat is a connection of its own, and a new one does not wait for the last. Nothing
has to be re-established after a link was down, and a packet lost on a full link costs one
heartbeat, not all that follow.
"""

import socket
import threading
import time

from unisono.heartbeat.loss_detector import SILENT_SHARE, AwakeClock
from unisono.heartbeat.messages import (
    LONGEST_LINE,
    Heartbeat,
    Loss,
    Reply,
    SidecarConfig,
    from_line,
    to_line,
)


def send_heartbeat(
    address: str, port: int, heartbeat: Heartbeat, seconds: float
) -> Reply | None:
    """Send a heartbeat to rank 0's sidecar; return its reply, or None if there was none.

    A refused connection is an error: nothing listens there any more.
    """
    try:
        with socket.create_connection((address, port), timeout=seconds) as connection:
            connection.sendall(to_line(heartbeat))
            with connection.makefile("rb") as stream:
                reply = from_line(stream.readline(LONGEST_LINE), Reply)
    except ConnectionRefusedError:
        raise
    except OSError:
        return None
    return reply if reply is not None and reply.token == heartbeat.token else None


class HeartbeatClient:
    """What the sidecar of another rank than 0 learns from that of rank 0."""

    def __init__(self, config: SidecarConfig) -> None:
        self._config, self._lock = config, threading.Lock()
        self._clock = AwakeClock(time.monotonic())
        self._began = self._now()
        self._replied = 0.0
        self._lost: tuple[Loss, ...] = ()
        self._acknowledged: Heartbeat | None = None
        self._refused = False
        self._slots = threading.BoundedSemaphore(max(4, int(2 * config.limit)))

    def beat(self, heartbeat: Heartbeat) -> None:
        """Send a heartbeat from a thread; the reply may come later, or never."""
        if self._slots.acquire(blocking=False):
            threading.Thread(target=self._exchange, args=(heartbeat,), daemon=True).start()

    def lost(self) -> tuple[Loss, ...]:
        """Return who is lost: as rank 0's sidecar says, or rank 0 because that is silent."""
        with self._lock:
            silence = self._now() - self._replied
            gone = self._replied and silence > SILENT_SHARE * self._config.limit
            if not self._lost and gone:
                detail = f"silent for {silence:.0f} s, and with it every rank beyond that link"
                self._lost = (Loss(0, "machine or link gone", detail),)
            return self._lost

    def seconds_without_any_reply(self) -> float:
        """Return for how long rank 0's sidecar has never replied; 0 once it has."""
        with self._lock:
            return 0.0 if self._replied else self._now() - self._began

    def is_settled(self, heartbeat: Heartbeat) -> bool:
        """Return whether rank 0's sidecar has acknowledged `heartbeat`, or is gone for good."""
        with self._lock:
            return self._acknowledged == heartbeat or self._refused

    def _now(self) -> float:
        return self._clock.read(time.monotonic())

    def _exchange(self, heartbeat: Heartbeat) -> None:
        config, reply, refused = self._config, None, False
        try:
            reply = send_heartbeat(config.address, config.port, heartbeat, config.limit)
        except ConnectionRefusedError:
            refused = True
        finally:
            self._slots.release()
        with self._lock:
            self._refused = refused
            if reply is None:
                return
            self._replied = self._now()
            self._lost = self._lost or reply.lost
            self._acknowledged = heartbeat

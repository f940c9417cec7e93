"""The heartbeat client: how a sidecar reaches that of rank 0.

Every heartbeat is a connection of its own, and a new one does not wait for the last. Nothing
has to be re-established after a link was down, and a packet lost on a full link costs one
heartbeat, not all that follow.
"""

import threading
import time

from unisono.heartbeat.loss_detector import SILENT_SHARE, AwakeClock
from unisono.heartbeat.messages import (
    Heartbeat,
    Loss,
    Reply,
    SidecarConfig,
    from_line,
    to_line,
)
from unisono.secure.channel import ChannelClosedError, StrangerError, dial


def send_heartbeat(config: SidecarConfig, heartbeat: Heartbeat) -> Reply | None:
    """Send a heartbeat to rank 0's sidecar; return its reply, or None if there was none.

    A refused connection is an error: nothing listens there any more. So is one that was closed
    before the reply: strangers fill the server, but it is alive.
    """
    deadline = time.monotonic() + config.limit
    try:
        channel = dial(config.endpoint, config.secret, config.limit)
        try:
            channel.send(to_line(heartbeat), deadline - time.monotonic())
            return from_line(channel.receive(deadline - time.monotonic()), Reply)
        finally:
            channel.close()
    except (ConnectionRefusedError, ChannelClosedError):
        raise
    except (ConnectionResetError, BrokenPipeError) as error:
        raise ChannelClosedError(str(error)) from error
    except (OSError, StrangerError):
        return None


class HeartbeatClient:
    """What the sidecar of another rank than 0 learns from that of rank 0."""

    def __init__(self, config: SidecarConfig) -> None:
        self._config, self._lock = config, threading.Lock()
        self._clock = AwakeClock(time.monotonic())
        self._began = self._now()
        self._replied = self._began if config.replaces else 0.0
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
        reply, refused, is_there = None, False, False
        try:
            reply = send_heartbeat(self._config, heartbeat)
        except ChannelClosedError:
            is_there = True
        except ConnectionRefusedError:
            refused = True
        finally:
            self._slots.release()
        with self._lock:
            self._refused = refused
            if is_there and self._replied:
                self._replied = self._now()
            if reply is None:
                return
            self._replied = self._now()
            self._lost = self._lost or reply.lost
            self._acknowledged = heartbeat

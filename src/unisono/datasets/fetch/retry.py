"""Why an attempt to download failed, and whether the same address deserves another one.

No `AttemptError` leaves the package: `download` collects them, address by address.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass


class AttemptError(Exception):
    """An attempt at one address failed; `reason` is shown to the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BrokenError(AttemptError):
    """The connection broke or the server was busy: another attempt may succeed.

    `wait` is the pause in seconds that the server asked for.
    """

    def __init__(self, reason: str, *, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait


class AbsentError(AttemptError):
    """No server or no such file: try again only if this address has delivered before."""


class RefusedError(AttemptError):
    """The server offers another file, or one that must not be accepted: do not try again."""


class MisfitError(AttemptError):
    """The bytes so far do not match the file on the server: start over."""


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, and how often to try again, before going on to the next mirror.

    `pauses` (seconds) separate attempts that delivered fewer than `progress_bytes` new bytes.
    A server may ask for longer ones, up to `longest_pause`. A connection that delivers fewer
    than `least_bytes` within `timeout` seconds counts as broken.
    """

    pauses: tuple[float, ...] = (1.0, 2.0, 4.0)
    longest_pause: float = 60.0
    timeout: float = 30.0
    least_bytes: int = 1024
    progress_bytes: int = 1 << 20
    sleep: Callable[[float], None] = time.sleep


DEFAULT_POLICY = RetryPolicy()


class RetryBudget:
    """How much one address has delivered and how often it has failed.

    Only bytes beyond the farthest point so far count as new: a server that always starts from
    the beginning and breaks at the same place delivers none.
    """

    def __init__(self, size: int, policy: RetryPolicy) -> None:
        self._policy = policy
        self._farthest = size
        self._failures = 0
        self._delivered = self._started_over = False

    def pause_after(self, error: AttemptError, size: int) -> float:
        """Return the seconds to wait before the next attempt, or raise `error`.

        `size` is the number of bytes that had arrived.
        """
        self._note(size)
        if isinstance(error, MisfitError) and not self._started_over:
            self._started_over = True
            return 0.0
        lost = isinstance(error, AbsentError) and self._delivered
        again = lost or isinstance(error, BrokenError)
        if not again or self._failures == len(self._policy.pauses):
            raise error
        pause = self._policy.pauses[self._failures]
        self._failures += 1
        return max(pause, error.wait) if isinstance(error, BrokenError) else pause

    def _note(self, size: int) -> None:
        news = size - self._farthest
        if news > 0:
            self._delivered, self._farthest = True, size
        if news >= self._policy.progress_bytes:
            self._failures = 0

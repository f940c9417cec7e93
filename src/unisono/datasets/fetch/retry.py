"""How long to wait for a server, and how often to ask again.

Whether one address deserves another try.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from unisono.datasets.fetch.failures import AbsentError, AttemptError, BrokenError, MisfitError


@dataclass(frozen=True)
class RetryPolicy:
    """How long to wait, and how often to ask again, before the next mirror has its turn.

    `pauses` (seconds) lie between attempts that brought less than `progress_bytes` of news.
    A server may ask for longer ones, up to `longest_pause`. A connection that brings fewer
    than `least_bytes` within `timeout` seconds counts as broken.
    """

    pauses: tuple[float, ...] = (1.0, 2.0, 4.0)
    longest_pause: float = 60.0
    timeout: float = 30.0
    least_bytes: int = 1024
    progress_bytes: int = 1 << 20
    sleep: Callable[[float], None] = time.sleep


USUAL = RetryPolicy()


class RetryBudget:
    """What one address has brought and how often it failed.

    News are bytes beyond the farthest point reached so far: a server that starts from the
    beginning every time and breaks at the same place brings none.
    """

    def __init__(self, size: int, patience: RetryPolicy) -> None:
        self._patience = patience
        self._farthest = size
        self._failures = 0
        self._delivered = self._started_over = False

    def pause_after(self, error: AttemptError, size: int) -> float:
        """Return the seconds to wait before the next try, or raise `error`: no more hope.

        `size` is how many bytes there were when it happened.
        """
        self._note(size)
        if isinstance(error, MisfitError) and not self._started_over:
            self._started_over = True
            return 0.0
        lost = isinstance(error, AbsentError) and self._delivered
        again = lost or isinstance(error, BrokenError)
        if not again or self._failures == len(self._patience.pauses):
            raise error
        pause = self._patience.pauses[self._failures]
        self._failures += 1
        return max(pause, error.wait) if isinstance(error, BrokenError) else pause

    def _note(self, size: int) -> None:
        news = size - self._farthest
        if news > 0:
            self._delivered, self._farthest = True, size
        if news >= self._patience.progress_bytes:
            self._failures = 0

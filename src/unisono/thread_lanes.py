"""Several threads of one process that compute side by side, each on its own data."""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# Python hands its lock on after 5 ms, in which a lane could have started many products.
SWITCH_SECONDS = 0.0002

_here = threading.local()


class Lanes:
    """The calling thread and `count` - 1 others, which `prepare` themselves when they start."""

    def __init__(self, count: int, prepare: Callable[[], None]) -> None:
        self.count = count
        # Threads that knew of this object would keep it, and it them, for ever.
        self._others = ThreadPoolExecutor(
            count - 1, "lane", initializer=_enter, initargs=(prepare,)
        )
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Do one job in each lane and return what came of them, in their order.

        The first is done here. All are over when this returns, even if one has failed.
        """
        others = [self._others.submit(job) for job in jobs[1:]]
        try:
            first = jobs[0]()
        finally:
            failures = [other.exception() for other in others]
        for failure in failures:
            if failure is not None:
                raise failure
        return [first, *(other.result() for other in others)]


def _enter(prepare: Callable[[], None]) -> None:
    _here.in_lane = True
    prepare()


def in_lane() -> bool:
    """Return whether this thread is one of those that a `Lanes` has added."""
    return getattr(_here, "in_lane", False)

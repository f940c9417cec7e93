"""Lanes: threads of one process that compute in parallel, each on its own data."""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

# By default a thread keeps the interpreter lock for 5 ms, in which another lane could have
# started many matrix products.
SWITCH_SECONDS = 0.0002

_here = threading.local()


class Lanes:
    """The calling thread and `count` - 1 others, each of which calls `prepare` at its start."""

    def __init__(self, count: int, prepare: Callable[[], None]) -> None:
        self.count = count
        # Threads that referred to this object would keep it alive, and it would keep them.
        self._others = ThreadPoolExecutor(
            count - 1, "lane", initializer=_enter, initargs=(prepare,)
        )
        sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))

    def run(self, jobs: Sequence[Callable[[], T]]) -> list[T]:
        """Run one job in each lane and return the results in order.

        The calling thread runs the first. All have ended when this returns, even if one fails.
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
    """Return whether this thread was started by a `Lanes`."""
    return getattr(_here, "in_lane", False)

"""Time limits for the sections of a run: as a user writes them, and as a thread checks them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

import msgspec

TICK_SECONDS = 1.0
# A step may take this many times the median of the last ones, even beyond its limit.
USUAL_STEPS, STEPS_REMEMBERED = 20, 50
# The first updates compile, read and allocate: the limit of the start applies to them.
FIRST_STEPS = 5
NO_LIMIT = float("inf")
# If two ticks are further apart than this, the whole process was stopped: that does not count.
STOPPED_SECONDS = 5.0

Late = Callable[[str, float], None]
Tick = Callable[[int, str], None]


class SectionLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A process that stays longer in a section ends, and reports where it was; "" is no limit.

    `start` counts until the first updates are done, and for those. `data` should be less than
    `step`: while one process waits for its data, the others wait for it in their step.
    """

    start: str = "30 min"
    data: str = "90 s"
    step: str = "2 min"
    evaluation: str = "2 h"
    save: str = "30 min"


class Sections:
    """Times the current section of this process from a thread.

    `limits` are seconds by section. The thread calls `late` once, with the section and its
    limit, when a section exceeds it, and `tick` every second with the step and the section.
    """

    def __init__(self, limits: Mapping[str, float], late: Late, tick: Tick) -> None:
        self._limits, self._late, self._tick = dict(limits), late, tick
        self._slept = 0.0
        self._now = "start", time.monotonic(), self._slept
        self._steps: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._taken, self.step = 0, 0
        self._over = threading.Event()
        threading.Thread(target=self._run, name="sections", daemon=True).start()

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Time the block as section `name`; sections do not nest."""
        began = time.monotonic()
        self._now = name, began, self._slept
        try:
            yield
        finally:
            ended = time.monotonic()
            if name == "step":
                self._steps.append(ended - began)
                self._taken += 1
            self._now = "rest" if self._taken else "start", ended, self._slept

    def limit_of(self, name: str) -> float:
        """Return how many seconds section `name` may take now."""
        limit = self._limits.get("start" if name == "rest" else name, NO_LIMIT)
        if name in ("data", "step") and self._taken < FIRST_STEPS:
            return max(limit, self._limits.get("start", NO_LIMIT))
        if name == "step" and self._steps:
            return max(limit, USUAL_STEPS * median(list(self._steps)))
        return limit

    def close(self) -> None:
        """Stop the thread at its next tick."""
        self._over.set()

    def _run(self) -> None:
        last = time.monotonic()
        while not self._over.wait(TICK_SECONDS):
            now = time.monotonic()
            if now - last > STOPPED_SECONDS:
                self._slept += now - last
            last = now
            name, since, slept = self._now
            limit = self.limit_of(name)
            if now - since - (self._slept - slept) > limit:
                self._late(name, limit)
                return
            self._tick(self.step, name)

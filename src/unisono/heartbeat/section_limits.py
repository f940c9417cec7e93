"""Time limits for the sections of a run: start, data, step, evaluation and save."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import median

TICK_SECONDS = 1.0
# A step may take this many times as long as the median of the last ones, whatever its limit.
USUAL_STEPS, STEPS_REMEMBERED = 20, 50
# The first updates compile, read and allocate: for them the limit of the start counts.
FIRST_STEPS = 5
NEVER = float("inf")
# Looks further apart were not made because the whole process stood still, and not for long.
ASLEEP_SECONDS = 5.0

Late = Callable[[str, float], None]
Tick = Callable[[int, str], None]


class Sections:
    """Knows in which section this process is, and since when; a thread of it looks on.

    `limits` are seconds by section. `late` is called once, by that thread, with the section
    and its limit; `tick` every second with the step and the section.
    """

    def __init__(self, limits: Mapping[str, float], late: Late, tick: Tick) -> None:
        self._limits, self._late, self._tick = dict(limits), late, tick
        self._slept = 0.0
        self._now = "start", time.monotonic(), self._slept
        self._steps: deque[float] = deque(maxlen=STEPS_REMEMBERED)
        self._taken, self.step = 0, 0
        self._over = threading.Event()
        threading.Thread(target=self._look_on, name="sections", daemon=True).start()

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Count the block as section `name`; sections are not put into one another."""
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
        limit = self._limits.get("start" if name == "rest" else name, NEVER)
        if name in ("data", "step") and self._taken < FIRST_STEPS:
            return max(limit, self._limits.get("start", NEVER))
        if name == "step" and self._steps:
            return max(limit, USUAL_STEPS * median(list(self._steps)))
        return limit

    def close(self) -> None:
        """Look on no more."""
        self._over.set()

    def _look_on(self) -> None:
        last = time.monotonic()
        while not self._over.wait(TICK_SECONDS):
            now = time.monotonic()
            if now - last > ASLEEP_SECONDS:
                self._slept += now - last
            last = now
            name, since, slept = self._now
            limit = self.limit_of(name)
            if now - since - (self._slept - slept) > limit:
                self._late(name, limit)
                return
            self._tick(self.step, name)

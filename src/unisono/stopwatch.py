"""Where the time of a step went."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stopwatch:
    """Add up seconds under names, and the time since the last `lap`.

    A block within another counts under its own name only.
    """

    def __init__(self) -> None:
        self._parts: dict[str, float] = {}
        self._inside = 0.0
        self._lap_began = time.perf_counter()

    @contextmanager
    def time(self, part: str) -> Iterator[None]:
        """Count the block's seconds under `part`."""
        began, outside = time.perf_counter(), self._inside
        self._inside = 0.0
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self.add(part, seconds - self._inside)
            self._inside = outside + seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the block's seconds out of the lap."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._lap_began += time.perf_counter() - began

    def add(self, part: str, seconds: float) -> None:
        """Count `seconds` under `part`."""
        self._parts[part] = self._parts.get(part, 0.0) + seconds

    def lap(self) -> tuple[float, dict[str, float]]:
        """Return the seconds since the last lap and its parts, and start the next."""
        now = time.perf_counter()
        total, parts = now - self._lap_began, self._parts
        self._lap_began, self._parts = now, {}
        return total, parts

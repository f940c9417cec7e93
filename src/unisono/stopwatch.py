"""Timers: where the time of a step goes.

The names of the timers are types. A misspelt one fails in mypy, and `TimerSeconds` unpacks
into the fields of the event `StepTaken`, which mypy checks too.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, TypedDict, get_args

StepPart = Literal[
    "data", "copy", "forward", "backward", "exchange", "agree", "optimizer", "recording"
]
Timer = Literal[StepPart, "hidden"]  # exchange hidden by the backward pass: no part of its own
STEP_PARTS: tuple[StepPart, ...] = get_args(StepPart)


Later = Callable[[], Iterable[tuple[Timer, float]]]


class TimerSeconds(TypedDict, total=False):
    """Seconds by timer; a timer that did not run is missing."""

    data: float
    copy: float
    forward: float
    backward: float
    exchange: float
    agree: float
    optimizer: float
    recording: float
    hidden: float


class Stopwatch:
    """Adds up the seconds of each timer, and the seconds since the last `lap`.

    A block inside another one counts for its own timer only.
    """

    def __init__(self) -> None:
        self._seconds: TimerSeconds = {}
        self._nested = 0.0
        self._lap_began = time.perf_counter()

    @contextmanager
    def time(self, timer: Timer) -> Iterator[None]:
        """Count the block's seconds for `timer`."""
        began, nested_before = time.perf_counter(), self._nested
        self._nested = 0.0
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self.add(timer, seconds - self._nested)
            self._nested = nested_before + seconds

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the block's seconds out of the lap."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._lap_began += time.perf_counter() - began

    def add(self, timer: Timer, seconds: float) -> None:
        """Count `seconds` for `timer`."""
        self._seconds[timer] = self._seconds.get(timer, 0.0) + seconds

    def later(self, seconds: Later) -> None:
        """Count what `seconds` returns once the device has finished: a CPU always has."""
        for timer, amount in seconds():
            self.add(timer, amount)

    def synchronized(self) -> None:
        """Note that the device has finished all that it was given."""

    def lap(self) -> tuple[float, TimerSeconds]:
        """Return the seconds since the last lap and those of each timer; start the next lap."""
        now = time.perf_counter()
        total, seconds = now - self._lap_began, self._seconds
        self._lap_began, self._seconds = now, {}
        return total, seconds

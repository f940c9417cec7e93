"""Timers of a GPU, by events in its stream.

The host only enqueues kernels: its clock would time that, and count the computing where it
waits for the GPU next, in the one message of an update ("agree"). Events say how long each part
took on the GPU. They are read right after that message, when all before it are over; what an
update computes after it is counted with the next one.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from unisono.stopwatch import Later, Stopwatch, Timer, TimerSeconds

DEVICE_PARTS: tuple[Timer, ...] = ("copy", "forward", "backward", "exchange", "optimizer")


def event_now() -> torch.cuda.Event:
    """Return an event of the current stream, recorded now."""
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def seconds_between(earlier: torch.cuda.Event, later: torch.cuda.Event) -> float:
    """Return the seconds from one event to another; both must be over."""
    return float(earlier.elapsed_time(later)) / 1000


def stopwatch_for(device: str) -> Stopwatch:
    """Return the stopwatch of a process that computes on `device`."""
    return DeviceStopwatch() if device.startswith("cuda") else Stopwatch()


class DeviceStopwatch(Stopwatch):
    """A stopwatch whose parts are those of a GPU; together they are as long as the host's."""

    def __init__(self) -> None:
        super().__init__()
        self._pending: list[Later] = []
        self._on_device: TimerSeconds = {}
        self._outer: Timer | None = None

    @contextmanager
    def time(self, timer: Timer) -> Iterator[None]:
        if timer not in DEVICE_PARTS:
            with super().time(timer):
                yield
            return
        outer, self._outer, began = self._outer, timer, event_now()
        try:
            with super().time(timer):
                yield
        finally:
            self._outer, ended = outer, event_now()
            self.later(lambda: _span(timer, outer, seconds_between(began, ended)))

    def later(self, seconds: Later) -> None:
        self._pending.append(seconds)

    def synchronized(self) -> None:
        pending, self._pending = self._pending, []
        for seconds in pending:
            for timer, amount in seconds():
                self._on_device[timer] = self._on_device.get(timer, 0.0) + amount

    def lap(self) -> tuple[float, TimerSeconds]:
        total, by_host = super().lap()
        by_device, self._on_device = self._on_device, {}
        return total, reconciled(by_host, by_device)


def _span(timer: Timer, outer: Timer | None, seconds: float) -> list[tuple[Timer, float]]:
    """Return the seconds of a block, taken off the block around it."""
    return [(timer, seconds)] + ([(outer, -seconds)] if outer is not None else [])


def reconciled(by_host: TimerSeconds, by_device: TimerSeconds) -> TimerSeconds:
    """Return the host's seconds, with those of a GPU's parts as the GPU took them.

    What the host spent on those parts and the GPU did not, it waited for other processes. If
    the GPU took longer, it was computing while the host did something else: then its parts are
    shortened alike, so that the sum stays that of the clock.
    """
    room = sum(by_host.get(timer, 0.0) for timer in (*DEVICE_PARTS, "agree"))
    computed = sum(by_device.get(timer, 0.0) for timer in DEVICE_PARTS)
    share = min(1.0, room / computed) if computed > 0.0 else 0.0
    merged = by_host.copy()
    for timer in DEVICE_PARTS:
        if timer in by_host or timer in by_device:
            merged[timer] = max(0.0, by_device.get(timer, 0.0)) * share
    merged["agree"] = max(0.0, room - computed * share)
    if "hidden" in by_device:
        merged["hidden"] = by_device["hidden"]
    return merged

"""A run may be started several times; each start of rank 0 begins a session."""

import math
from dataclasses import dataclass

from unisono.records.events import Ended, Started
from unisono.records.view import RunView


@dataclass(frozen=True)
class RunSession:
    """One start of the run, from the first sign of life to the last. Times are Unix times.

    `reason` is that of the `ended` event, or "" where there is none.
    """

    began: float
    last_seen: float
    size: int
    reason: str = ""

    @property
    def seconds(self) -> float:
        return max(0.0, self.last_seen - self.began)


def sessions_of(run: RunView) -> tuple[RunSession, ...]:
    """Return the sessions in the order of time, as rank 0 recorded them."""
    seen = _signs_of_life(run)
    starts = sorted((s for s in run.starts if s.rank == 0), key=lambda start: start.time)
    if not starts:
        return _without_start(run, seen)
    until = [start.time for start in starts[1:]] + [float("inf")]
    pairs = zip(starts, until, strict=True)
    return tuple(_session(start, end, seen, run.ends) for start, end in pairs)


def _session(
    start: Started, until: float, seen: list[float], ends: tuple[Ended, ...]
) -> RunSession:
    last_seen = max((t for t in seen if start.time <= t < until), default=start.time)
    reason = next((e.reason for e in ends if start.time <= e.time < until), "")
    return RunSession(start.time, last_seen, start.size, reason)


def _without_start(run: RunView, seen: list[float]) -> tuple[RunSession, ...]:
    if not run.steps:
        return ()
    first = run.steps[0]
    began = first.time - (first.seconds if math.isfinite(first.seconds) else 0.0)
    reason = run.ends[-1].reason if run.ends else ""
    return (RunSession(began, max(seen), max(1, len(run.ranks)), reason),)


def _signs_of_life(run: RunView) -> list[float]:
    kinds = (run.steps, run.validations, run.saves, run.warnings, run.tests, run.ends)
    return [*run.seen, *(event.time for events in kinds for event in events)]

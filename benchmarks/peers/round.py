"""One round: start a trainer, let it warm up, watch it for a while, and end it."""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from measure import Watcher, end_family

from peers.environment import last_lines
from peers.peer import Start, Told, Update, Validation

LOOK_EVERY, LOOK_AT_MEMORY_EVERY = 0.1, 0.5
PATIENCE = 600.0  # seconds from the start to the first update


class RoundError(Exception):
    """A trainer ended, or said nothing, before it was measured."""


@dataclass(frozen=True)
class Reading:
    """What one round found: real tokens of `updates` whole updates, and their seconds."""

    updates: int
    seconds: float
    target_tokens: float
    source_tokens: float
    sentences: float
    peak_bytes: int
    start_seconds: float

    @property
    def tokens_per_second(self) -> float:
        """Return the real target tokens a second."""
        return self.target_tokens / self.seconds


@dataclass
class Followed:
    """Everything a trainer told while it ran."""

    began: float
    updates: list[Update] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    peak_bytes: int = 0

    def take(self, all_told: Iterable[Told]) -> None:
        """Add what was told since."""
        for told in all_told:
            if isinstance(told, Update):
                self.updates.append(told)
            elif told:
                self.validations.append(told)

    def reading(self, skipped: int) -> Reading:
        """Return the rate from the end of update `skipped` to the end of the last one."""
        counted = self.updates[skipped:]
        return Reading(
            updates=len(counted),
            seconds=counted[-1].time - self.updates[skipped - 1].time,
            target_tokens=sum(update.target_tokens for update in counted),
            source_tokens=sum(update.source_tokens for update in counted),
            sentences=sum(update.sentences for update in counted),
            peak_bytes=self.peak_bytes,
            start_seconds=self.updates[0].time - self.began,
        )


def measure_round(start: Start, log: Path, seconds: float, skipped: int) -> Reading:
    """Run for `seconds` after the first `skipped` updates and return what came of it."""

    def enough(followed: Followed) -> bool:
        updates = followed.updates
        return (
            len(updates) > skipped + 1
            and updates[-1].time - updates[skipped - 1].time >= seconds
        )

    return follow(start, log, enough).reading(skipped)


def follow(
    start: Start, log: Path, enough: Callable[[Followed], bool], *, may_end: bool = False
) -> Followed:
    """Run a trainer until `enough` says so; with `may_end`, or until it has finished."""
    began = time.time()
    with log.open("wb") as out:
        process = subprocess.Popen(
            [str(part) for part in start.command],
            env={**os.environ, **start.variables},
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=log.parent,
        )
        watcher = Watcher(process.pid, every=LOOK_AT_MEMORY_EVERY, shared_once=True)
        watcher.start()
        followed, tail = Followed(began), Tail(start)
        try:
            while not (followed.updates and enough(followed)):
                time.sleep(LOOK_EVERY)
                ended = process.poll()
                followed.take(tail.new())
                followed.peak_bytes = watcher.peak
                if ended == 0 and may_end:
                    break
                _check(followed, ended, log)
        finally:
            watcher.stop()
            end_family(process)
    return followed


def _check(followed: Followed, ended: int | None, log: Path) -> None:
    silent = not followed.updates and time.time() - followed.began > PATIENCE
    if ended is None and not silent:
        return
    what = f"no update in {PATIENCE:.0f} s" if silent else f"ended with exit code {ended}"
    raise RoundError(
        f"{what}, after {len(followed.updates)} updates; the log is {log}, and ends:\n"
        + last_lines(log)
    )


class Tail:
    """The lines that are added to a journal, as what they tell."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self._read = 0

    def new(self) -> Iterator[Told]:
        """Yield what whole lines have come since the last time."""
        path = self._start.journal
        if not path.is_file():
            return
        with path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        now = time.time()
        for line in whole.decode("utf-8", "replace").splitlines():
            yield self._start.read(line, now)

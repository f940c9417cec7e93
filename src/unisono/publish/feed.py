"""Reads the points of a run in order, from where the last reader stopped.

Each stream of points is made of one file, which only grows: the updates and scores of rank 0,
the times of each process, the samples of each machine. How far a stream was read is a number of
bytes, and the same bytes always make the same points.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from unisono.publish.points import (
    MACHINE_EVERY,
    PROCESS_EVERY,
    UPDATES_EVERY,
    Point,
    machine_point,
    process_point,
    score_point,
    updates_point,
)
from unisono.records import events, monitor_events
from unisono.records.events import StepTaken, Tested, Validated
from unisono.records.layout import numbered_files
from unisono.records.monitor_events import Sampled
from unisono.small_files import LONGEST_EVENT, open_regular

MOST_POINTS = 500  # in one batch
E = TypeVar("E")
Made = Iterator[tuple[Point | None, int]]


@dataclass(frozen=True)
class PointBatch:
    """Points, and how far each stream was read to make them."""

    points: tuple[Point, ...]
    offsets: dict[str, int]


@dataclass(frozen=True)
class PointStream:
    """The points of one file. `make` yields them with the offset up to which they are made."""

    name: str
    path: Path
    make: Callable[[Path, int, bool], Made]

    def read(self, offset: int, most: int, *, is_over: bool) -> tuple[list[Point], int]:
        """Return at most so many points after `offset`, and the offset behind them."""
        points: list[Point] = []
        if not self.path.is_file() or self.path.stat().st_size <= offset:
            return points, offset
        for point, end in self.make(self.path, offset, is_over):
            offset = end
            points += [point] if point is not None and point.values else []
            if len(points) >= most:
                break
        return points, offset


class RunFeed:
    """The points of the run in the directory `run`; `offsets` is where the reader stopped."""

    def __init__(self, run: Path, offsets: dict[str, int]) -> None:
        self._run, self._offsets = run, dict(offsets)

    def next(self, hosts: dict[int, str], began: float, *, is_over: bool) -> PointBatch:
        """Return the next points; none if there are no more now.

        `hosts` names the machines by the rank of their first process, `began` is when the run
        did. A run that is over gives away its last seconds, too.
        """
        points: list[Point] = []
        offsets = dict(self._offsets)
        for stream in _streams(self._run, hosts, began):
            most = MOST_POINTS - len(points)
            if most <= 0:
                break
            found, end = stream.read(offsets.get(stream.name, 0), most, is_over=is_over)
            offsets[stream.name] = end
            points += found
        return PointBatch(tuple(points), offsets)

    def taken(self, batch: PointBatch) -> None:
        """Go on behind this batch."""
        self._offsets = batch.offsets


def _streams(run: Path, hosts: dict[int, str], began: float) -> Iterator[PointStream]:
    processes = list(numbered_files(run / "events", "rank", ".jsonl"))
    if processes and processes[0][0] == 0:
        updates = StepPoints("run", UPDATES_EVERY, updates_point, scores=True)
        yield PointStream("run", processes[0][1], updates.make)
    for rank, path in processes:
        times = StepPoints(f"rank-{rank}", PROCESS_EVERY, partial(process_point, rank))
        yield PointStream(times.stream, path, times.make)
    for rank, path in numbered_files(run / "monitor", "rank", ".jsonl"):
        host = re.sub(r"[^A-Za-z0-9._-]", "_", hosts.get(rank, f"of_rank_{rank}"))
        machine = MachinePoints(f"machine-{rank}", host, began)
        yield PointStream(machine.stream, path, machine.make)


@dataclass(frozen=True)
class StepPoints:
    """Makes a point of the updates of `every` seconds and, if wanted, one of each score."""

    stream: str
    every: float
    values: Callable[[list[StepTaken]], dict[str, float]]
    scores: bool = False

    def make(self, path: Path, offset: int, is_over: bool) -> Made:
        """Yield the points after `offset`, each with the offset behind it."""
        window, seconds, behind = list[StepTaken](), 0.0, offset
        for start, end, event in _decoded(path, offset, events.from_lines):
            behind = end
            if isinstance(event, StepTaken):
                window, seconds = [*window, event], seconds + event.seconds
            elif self.scores and isinstance(event, Validated | Tested):
                if window:
                    yield self._point(window, start), start
                yield Point(self._id(end), event.time, event.step, score_point(event)), end
                window, seconds = [], 0.0
            elif not window:
                yield None, end
            if window and seconds >= self.every:
                yield self._point(window, end), end
                window, seconds = [], 0.0
        if window and is_over:
            yield self._point(window, behind), behind

    def _point(self, window: list[StepTaken], end: int) -> Point:
        last = window[-1]
        return Point(self._id(end), last.time, last.step, self.values(window))

    def _id(self, end: int) -> str:
        return f"{self.stream}:{end}"


@dataclass(frozen=True)
class MachinePoints:
    """Makes a point of the samples of `MACHINE_EVERY` seconds of a machine."""

    stream: str
    host: str
    began: float

    def make(self, path: Path, offset: int, is_over: bool) -> Made:
        """Yield the points after `offset`; the last sample of one is the first of the next."""
        before, window, behind = None, list[Sampled](), (offset, offset)
        for start, end, event in _decoded(path, offset, monitor_events.from_lines):
            if not isinstance(event, Sampled):
                continue
            if before is None:
                before = event
                continue
            window, behind = [*window, event], (start, end)
            if event.time - before.time >= MACHINE_EVERY:
                yield self._point(before, window, end), start
                before, window = event, []
        if before is not None and window and is_over:
            yield self._point(before, window, behind[1]), behind[0]

    def _point(self, before: Sampled, window: list[Sampled], end: int) -> Point:
        last = window[-1]
        seconds = max(0, round(last.time - self.began))
        values = machine_point(self.host, before, window)
        return Point(f"{self.stream}:{end}", last.time, seconds, values, of_machine=True)


def _decoded(
    path: Path, offset: int, decode: Callable[[list[bytes]], Iterator[E]]
) -> Iterator[tuple[int, int, E]]:
    """Yield the events after `offset`, and where the line of each starts and ends."""
    with open_regular(path) as file:
        file.seek(offset)
        while (line := file.readline(LONGEST_EVENT)).endswith(b"\n"):
            for event in decode([line]):
                yield offset, offset + len(line), event
            offset += len(line)

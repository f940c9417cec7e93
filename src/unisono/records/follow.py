"""Follow a run while it is being written: each call reads only what is new.

The follower keeps the latest updates and samples, and an outline of the loss curve, so that a
run of weeks on many machines takes no more memory than one of minutes.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from unisono.records import monitor_events as sampled
from unisono.records import view
from unisono.records.damage import DamageLog
from unisono.records.events import (
    Adapted,
    AnyEvent,
    Ended,
    Found,
    Lost,
    RolledBack,
    Saved,
    Started,
    StepTaken,
    Tested,
    Validated,
    Warned,
    from_lines,
)
from unisono.records.layout import RunDirectory, numbered_files
from unisono.records.monitor_events import Machine, MachineLog, Sampled, told_apart
from unisono.records.skim import some_samples, some_updates, stride_of
from unisono.records.status import leader_lives
from unisono.small_files import LONGEST_EVENT, open_regular

KEPT_STEPS = 300
KEPT_SAMPLES = 300
OUTLINE = 400  # points of the loss curve: at least this many, at most twice
TAIL_BYTES = 2**17  # at a time: more would take more memory, and save no time
RECENT_BYTES = 2**18  # of a file, at least: a start and what came shortly before


class Listener(Protocol):
    """Who wants to hear of every event, and not only of those that a follower keeps."""

    def forget(self, rank: int) -> None:
        """Begin with the events of a process anew: its file was replaced."""

    def hear(self, rank: int, event: AnyEvent) -> None:
        """Take note of an event of a process."""

    def forget_samples(self, rank: int) -> None:
        """Begin with the samples of a machine anew."""

    def hear_sample(self, rank: int, sample: Sampled) -> None:
        """Take note of a sample of the machine whose first process is `rank`."""


class _Nobody:
    def forget(self, rank: int) -> None:
        pass

    def hear(self, rank: int, event: AnyEvent) -> None:
        pass

    def forget_samples(self, rank: int) -> None:
        pass

    def hear_sample(self, rank: int, sample: Sampled) -> None:
        pass


@dataclass
class _Tail:
    """A file that grows by lines."""

    path: Path
    read: int = 0
    torn: bytes = b""
    damaged: list[str] = field(default_factory=list)

    @property
    def began_anew(self) -> bool:
        """Return whether the file is shorter than before: another run began here."""
        return _bytes_of(self.path) < self.read

    def history(self, until: int) -> Iterator[bytes]:
        """Yield the lines that end before a byte."""
        with suppress(OSError), open_regular(self.path) as file:
            torn = b""
            while data := file.read(min(TAIL_BYTES, until - self.read)):
                self.read += len(data)
                *lines, torn = (torn + data).split(b"\n")
                torn = torn[:LONGEST_EVENT]
                yield from lines
            self.read -= len(torn)

    def lines(self) -> Iterator[bytes]:
        """Yield the new lines."""
        with suppress(OSError), open_regular(self.path) as file:
            file.seek(self.read)
            while data := file.read(TAIL_BYTES):
                self.read += len(data)
                *lines, self.torn = (self.torn + data).split(b"\n")
                self.torn = self.torn[:LONGEST_EVENT]
                yield from (line for line in lines if line.strip())


@dataclass
class _Rank:
    """The events of one process so far."""

    tail: _Tail
    number: int
    listener: Listener
    steps: deque[StepTaken] = field(default_factory=lambda: deque(maxlen=KEPT_STEPS))
    others: list[AnyEvent] = field(default_factory=list)
    outline: list[tuple[int, float]] = field(default_factory=list)
    every: int = 1
    last: float = 0.0
    ended: list[float] = field(default_factory=list)

    def look(self) -> None:
        self.hear(self.tail.lines())

    def hear(self, lines: Iterable[bytes]) -> None:
        """Take note of the events in some lines."""
        for event in from_lines(lines, self.tail.damaged):
            if isinstance(event, Started) and self.last:
                self.ended.append(self.last)
            self.last = max(self.last, event.time)
            self.listener.hear(self.number, event)
            if isinstance(event, StepTaken):
                self.steps.append(event)
                self._draw(event)
                continue
            if isinstance(event, Started | RolledBack):
                self._undo(event.to_step if isinstance(event, RolledBack) else event.step)
            view.add_event(self.others, event)

    @property
    def seen(self) -> tuple[float, ...]:
        """Return when each start of the process was last seen."""
        return (*self.ended, self.last)

    def _draw(self, event: StepTaken) -> None:
        if event.step % self.every == 0:
            self.outline.append((event.step, event.loss))
        if len(self.outline) >= 2 * OUTLINE:
            self.every *= 2
            self.outline = [point for point in self.outline if point[0] % self.every == 0]

    def _undo(self, step: int) -> None:
        """Forget updates after `step`, whose weights no longer exist."""
        while self.steps and self.steps[-1].step > step:
            self.steps.pop()
        self.outline = [point for point in self.outline if point[0] <= step]


@dataclass
class _Sampler:
    """The samples of one machine so far."""

    tail: _Tail
    number: int
    listener: Listener
    machines: list[Machine] = field(default_factory=list)
    samples: deque[Sampled] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    warnings: list[Warned] = field(default_factory=list)

    def look(self) -> None:
        self.hear(self.tail.lines())

    def hear(self, lines: Iterable[bytes]) -> None:
        """Take note of the samples in some lines."""
        for event in sampled.from_lines(lines, self.tail.damaged):
            if isinstance(event, Machine):
                self.machines.append(event)
            elif isinstance(event, Sampled):
                self.samples.append(event)
                self.listener.hear_sample(self.number, event)
            else:
                self.warnings.append(event)

    @property
    def log(self) -> MachineLog:
        return MachineLog(tuple(self.machines), tuple(self.samples), tuple(self.warnings))


class Follower:
    """Reads a run repeatedly; if `recent`, it reads little of the history of some files.

    Rank 0 records the history of the run, so its file is always read from the beginning, and
    those of other ranks and of the samplers only from their last part on. With a `listener`,
    who wants to know of the past, the samples are all read, and of the other ranks' updates
    every `stride`th, which is the same for all. If `sparse`, so are the updates of rank 0 and
    the samples: that is quick, and misses what is highest and lowest.
    """

    def __init__(
        self,
        path: Path,
        *,
        recent: bool = False,
        listener: Listener | None = None,
        sparse: bool = False,
    ) -> None:
        self._listener, self._skims = listener or _Nobody(), listener is not None
        self._path, self._directory, self._damage = path, RunDirectory(path), DamageLog(path)
        self._config = view.read_config(path, self._damage)
        self._environment = self._damage.table(self._directory.environment)
        self._corpus = self._damage.table(self._directory.corpus)
        self._ranks: dict[int, _Rank] = {}
        self._samplers: dict[int, _Sampler] = {}
        self._skipped = _history(path, leader=sparse, samples=sparse or not self._skims)
        self._skipped = self._skipped if recent else {}
        events = (size for path, size in self._skipped.items() if path.parent.name == "events")
        self.stride = stride_of(max(events, default=0))

    @property
    def outline(self) -> list[tuple[int, float]]:
        """Return an outline of the training loss."""
        return self._ranks[0].outline if 0 in self._ranks else []

    def look(self) -> view.RunView:
        """Return the run as it stands now, with the last updates of each process."""
        for number, path in _files(self._path / "events"):
            if number not in self._ranks or self._ranks[number].tail.began_anew:
                self._listener.forget(number)
                self._ranks[number] = self._rank(number, path)
            self._look_at(self._ranks[number])
        for number, path in _files(self._path / "monitor"):
            if number not in self._samplers or self._samplers[number].tail.began_anew:
                self._listener.forget_samples(number)
                self._samplers[number] = self._sampler(number, path)
            self._look_at(self._samplers[number])
        return self._view()

    def _look_at(self, told: _Rank | _Sampler) -> None:
        told.look()
        self._damage.lines(told.tail.path, told.tail.damaged)

    def _rank(self, number: int, path: Path) -> _Rank:
        skipped = self._skipped.pop(path, 0)
        if not self._skims:
            return _Rank(_Tail(path, read=skipped), number, self._listener)
        rank = _Rank(_Tail(path), number, self._listener)
        rank.hear(some_updates(rank.tail.history(skipped), self.stride))
        if self.stride > 1:
            rank.steps.clear()  # the latest updates are those that follow
        return rank

    def _sampler(self, number: int, path: Path) -> _Sampler:
        skipped = self._skipped.pop(path, 0)
        if not self._skims:
            return _Sampler(_Tail(path, read=skipped), number, self._listener)
        sampler = _Sampler(_Tail(path), number, self._listener)
        sampler.hear(some_samples(sampler.tail.history(skipped), stride_of(skipped)))
        return sampler

    def _view(self) -> view.RunView:
        leader = self._ranks[0].others if 0 in self._ranks else []
        everybody = [event for rank in self._ranks.values() for event in rank.others]
        starts, validations = view.of_kind(everybody, Started), view.of_kind(leader, Validated)
        lives = leader_lives(self._directory, starts)
        return view.RunView(
            path=self._path,
            config=self._config,
            environment=self._environment,
            corpus=self._corpus,
            starts=told_apart(starts),
            ranks={number: tuple(rank.steps) for number, rank in self._ranks.items()},
            validations=tuple(validations),
            saves=tuple(view.of_kind(leader, Saved)),
            warnings=(
                *view.warnings_of(leader),
                *(warned for one in self._samplers.values() for warned in one.warnings),
            ),
            tests=tuple(view.of_kind(leader, Tested)),
            adapted=tuple(view.of_kind(leader, Adapted)),
            losses=view.lost_once(view.of_kind(everybody, Lost)),
            ends=tuple(view.of_kind(leader, Ended)),
            samples={event.step: event.samples for event in validations},
            seen=self._ranks[0].seen if 0 in self._ranks else (),
            machines={number: one.log for number, one in self._samplers.items()},
            found=tuple(view.of_kind(leader, Found)),
            gone=lives is False,
            alive=lives is True,
            damaged=self._damage.sentences,
        )


def _history(run: Path, *, leader: bool, samples: bool) -> dict[Path, int]:
    """Return how many bytes of each file are history; this may cut a line in two."""
    past = [path for number, path in _files(run / "events") if number or leader]
    past += [path for _, path in _files(run / "monitor")] if samples else []
    return {path: max(0, _bytes_of(path) - RECENT_BYTES) for path in past}


def _files(directory: Path) -> Iterator[tuple[int, Path]]:
    """Yield the files of a directory that are named after ranks, with the rank."""
    yield from numbered_files(directory, "rank", ".jsonl")


def _bytes_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0

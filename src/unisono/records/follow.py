"""A run while it is being written: at each look only what is new is read.

Of the updates the last ones are kept, and the course of the loss in outline, so that a run of
weeks on many machines takes no more room than one of minutes. Of what the machines did, the
last samples are kept as well.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unisono.records import monitor_events as sampled
from unisono.records.events import (
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
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import Machine, MachineLog, Sampled, told_apart
from unisono.records.status import leader_lives
from unisono.records.view import (
    RunView,
    add_event,
    lost_once,
    of_kind,
    read_config,
    read_json,
    warnings_of,
)

KEPT_STEPS = 300
KEPT_SAMPLES = 300
OUTLINE = 400  # points of the course of the loss: at least as many, at most twice
CHUNK_BYTES = 2**20
RECENT_BYTES = 2**18  # of a file, at least: a start and what came shortly before


@dataclass
class _Tail:
    """A file to which lines are added."""

    path: Path
    read: int = 0
    torn: bytes = b""

    @property
    def began_anew(self) -> bool:
        """Return whether another run has begun in its place."""
        return self.path.stat().st_size < self.read

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that are new."""
        with self.path.open("rb") as file:
            file.seek(self.read)
            while data := file.read(CHUNK_BYTES):
                self.read += len(data)
                *lines, self.torn = (self.torn + data).split(b"\n")
                yield from (line for line in lines if line.strip())


@dataclass
class _Rank:
    """What one process has told so far."""

    tail: _Tail
    steps: deque[StepTaken] = field(default_factory=lambda: deque(maxlen=KEPT_STEPS))
    others: list[AnyEvent] = field(default_factory=list)
    outline: list[tuple[int, float]] = field(default_factory=list)
    every: int = 1
    last: float = 0.0

    def look(self) -> None:
        """Take in what is new."""
        for event in from_lines(self.tail.lines()):
            self.last = max(self.last, event.time)
            if isinstance(event, StepTaken):
                self.steps.append(event)
                self._draw(event)
                continue
            if isinstance(event, Started | RolledBack):
                self._undo(event.to_step if isinstance(event, RolledBack) else event.step)
            add_event(self.others, event)

    def _draw(self, event: StepTaken) -> None:
        if event.step % self.every == 0:
            self.outline.append((event.step, event.loss))
        if len(self.outline) >= 2 * OUTLINE:
            self.every *= 2
            self.outline = [point for point in self.outline if point[0] % self.every == 0]

    def _undo(self, step: int) -> None:
        """Forget what belongs to weights that no longer exist."""
        while self.steps and self.steps[-1].step > step:
            self.steps.pop()
        self.outline = [point for point in self.outline if point[0] <= step]


@dataclass
class _Sampler:
    """What was sampled on one machine so far."""

    tail: _Tail
    machines: list[Machine] = field(default_factory=list)
    samples: deque[Sampled] = field(default_factory=lambda: deque(maxlen=KEPT_SAMPLES))
    warnings: list[Warned] = field(default_factory=list)

    def look(self) -> None:
        """Take in what is new."""
        for event in sampled.from_lines(self.tail.lines()):
            if isinstance(event, Machine):
                self.machines.append(event)
            elif isinstance(event, Sampled):
                self.samples.append(event)
            else:
                self.warnings.append(event)

    @property
    def log(self) -> MachineLog:
        """Return it as a report reads it."""
        return MachineLog(tuple(self.machines), tuple(self.samples), tuple(self.warnings))


class Follower:
    """Looks at a run again and again; if that is `recent`, at the last session of most ranks.

    Rank 0 tells the story of the run and is always read from its beginning.
    """

    def __init__(self, path: Path, *, recent: bool = False) -> None:
        self._path, self._config = path, read_config(path)
        self._directory = RunDirectory(path)
        self._environment = read_json(self._directory.environment)
        self._corpus = read_json(self._directory.corpus)
        self._ranks: dict[int, _Rank] = {}
        self._samplers: dict[int, _Sampler] = {}
        self._skipped = _history(path) if recent else {}

    @property
    def outline(self) -> list[tuple[int, float]]:
        """Return the course of the training loss, in outline."""
        return self._ranks[0].outline if 0 in self._ranks else []

    def look(self) -> RunView:
        """Return the run as it stands now, with the last updates of each process."""
        for number, path in _files(self._path / "events"):
            if number not in self._ranks or self._ranks[number].tail.began_anew:
                self._ranks[number] = _Rank(self._tail(path))
            self._ranks[number].look()
        for number, path in _files(self._path / "monitor"):
            if number not in self._samplers or self._samplers[number].tail.began_anew:
                self._samplers[number] = _Sampler(self._tail(path))
            self._samplers[number].look()
        return self._view()

    def _tail(self, path: Path) -> _Tail:
        return _Tail(path, read=self._skipped.pop(path, 0))

    def _view(self) -> RunView:
        leader = self._ranks[0].others if 0 in self._ranks else []
        everybody = [event for rank in self._ranks.values() for event in rank.others]
        starts, validations = of_kind(everybody, Started), of_kind(leader, Validated)
        lives = leader_lives(self._directory, starts)
        return RunView(
            path=self._path,
            config=self._config,
            environment=self._environment,
            corpus=self._corpus,
            starts=told_apart(starts),
            ranks={number: tuple(rank.steps) for number, rank in self._ranks.items()},
            validations=tuple(validations),
            saves=tuple(of_kind(leader, Saved)),
            warnings=(
                *warnings_of(leader),
                *(warned for one in self._samplers.values() for warned in one.warnings),
            ),
            tests=tuple(of_kind(leader, Tested)),
            losses=lost_once(of_kind(everybody, Lost)),
            ends=tuple(of_kind(leader, Ended)),
            samples={event.step: event.samples for event in validations},
            seen=(self._ranks[0].last,) if 0 in self._ranks else (),
            machines={number: one.log for number, one in self._samplers.items()},
            found=tuple(of_kind(leader, Found)),
            gone=lives is False,
            alive=lives is True,
        )


def _history(run: Path) -> dict[Path, int]:
    """Return by file how much of it is history now; its last line may be cut."""
    events = [path for number, path in _files(run / "events") if number]
    samples = [path for _, path in _files(run / "monitor")]
    return {path: max(0, path.stat().st_size - RECENT_BYTES) for path in (*events, *samples)}


def _files(directory: Path) -> Iterator[tuple[int, Path]]:
    """Yield the files of a directory that are named after ranks, with the rank."""
    for path in sorted(directory.glob("rank-*.jsonl")):
        yield int(path.stem.removeprefix("rank-")), path

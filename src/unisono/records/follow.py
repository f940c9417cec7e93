"""A run while it is being written: at each look only what is new is read.

Of the updates the last ones are kept, and the course of the loss in outline, so that a run of
weeks on many machines takes no more room than one of minutes.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from unisono.records.events import (
    AnyEvent,
    Ended,
    Lost,
    RolledBack,
    Saved,
    Started,
    StepTaken,
    Tested,
    Validated,
    from_lines,
)
from unisono.records.view import (
    RunView,
    add_event,
    lost_once,
    of_kind,
    read_config,
    warnings_of,
)

KEPT_STEPS = 300
OUTLINE = 400  # points of the course of the loss: at least as many, at most twice


@dataclass
class _Rank:
    """What one process has told so far."""

    path: Path
    read: int = 0
    torn: bytes = b""
    steps: deque[StepTaken] = field(default_factory=lambda: deque(maxlen=KEPT_STEPS))
    others: list[AnyEvent] = field(default_factory=list)
    outline: list[tuple[int, float]] = field(default_factory=list)
    every: int = 1
    last: float = 0.0

    def look(self) -> None:
        """Take in what is new."""
        for event in from_lines(self._lines()):
            self.last = event.time
            if isinstance(event, StepTaken):
                self.steps.append(event)
                self._draw(event)
                continue
            if isinstance(event, Started | RolledBack):
                self._undo(event.to_step if isinstance(event, RolledBack) else event.step)
            add_event(self.others, event)

    @property
    def began_anew(self) -> bool:
        """Return whether another run has begun in its place."""
        return self.path.stat().st_size < self.read

    def _lines(self) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            file.seek(self.read)
            data = file.read()
        self.read += len(data)
        *lines, self.torn = (self.torn + data).split(b"\n")
        yield from (line for line in lines if line.strip())

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


class Follower:
    """Looks at a run again and again."""

    def __init__(self, path: Path) -> None:
        self._path, self._config = path, read_config(path)
        self._ranks: dict[int, _Rank] = {}

    @property
    def outline(self) -> list[tuple[int, float]]:
        """Return the course of the training loss, in outline."""
        return self._ranks[0].outline if 0 in self._ranks else []

    def look(self) -> RunView:
        """Return the run as it stands now, with the last updates of each process."""
        for file in sorted((self._path / "events").glob("rank-*.jsonl")):
            rank = int(file.stem.removeprefix("rank-"))
            if rank not in self._ranks or self._ranks[rank].began_anew:
                self._ranks[rank] = _Rank(file)
            self._ranks[rank].look()
        leader = self._ranks[0].others if 0 in self._ranks else []
        everybody = [event for rank in self._ranks.values() for event in rank.others]
        return RunView(
            path=self._path,
            config=self._config,
            starts=tuple(of_kind(everybody, Started)),
            ranks={number: tuple(rank.steps) for number, rank in self._ranks.items()},
            validations=tuple(of_kind(leader, Validated)),
            saves=tuple(of_kind(leader, Saved)),
            warnings=tuple(warnings_of(leader)),
            tests=tuple(of_kind(leader, Tested)),
            losses=lost_once(of_kind(everybody, Lost)),
            ends=tuple(of_kind(leader, Ended)),
            seen=(self._ranks[0].last,) if 0 in self._ranks else (),
        )

"""A run as its directory describes it: what diagnosis, report and `unisono watch` read.

A run directory that `unisono import` wrote also has `imported.json`. Its events hold what the
records of the other trainer say and nothing else: unknown numbers are null, unknown counts 0.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from unisono.errors import DataError
from unisono.records.damage import DamageLog
from unisono.records.events import (
    Adapted,
    AnyEvent,
    Ended,
    Found,
    Lost,
    Number,
    RolledBack,
    Sample,
    Saved,
    Started,
    StepTaken,
    Tested,
    Validated,
    Warned,
    Whole,
    from_lines,
)
from unisono.records.layout import RunDirectory, numbered_files
from unisono.records.monitor_events import MachineLog, latest_starts, read_machines, told_apart
from unisono.records.sentence_losses import SentenceLosses, read_losses
from unisono.records.status import ENDED_BADLY, Status, leader_lives
from unisono.small_files import toml_table

NAME = "imported.json"


class Imported(msgspec.Struct, frozen=True, kw_only=True):
    """The origin of an imported run, and the facts that the user gave with it.

    `every_steps` is the number of updates between two records: a step event stands for the last
    of them, and its seconds are their mean. `clock` says whether times come from a clock or
    count from 0, `ended` whether the records say that training ended. For `processes`,
    `machines`, `parameters` and `link_bits_per_second`, 0 means unknown; `told` names those
    given on the command line. `link_measured` says that the rate of the link was measured, not
    nominal. `notes` say what a reader of the numbers must know.
    """

    trainer: str
    source: str
    every_steps: Whole = 0
    clock: bool = False
    ended: bool = False
    processes: Whole = 0
    machines: Whole = 0
    parameters: Whole = 0
    device: str = ""
    link_bits_per_second: Number = 0.0
    link_measured: bool = False
    told: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    format: int = 1


def read_imported(run: Path) -> Imported | None:
    """Return the origin of an imported run, or None for a run of Unisono."""
    return _imported(run, DamageLog(run))


def _imported(run: Path, damage: DamageLog) -> Imported | None:
    return damage.parsed(run / NAME, msgspec.json.Decoder(Imported).decode)


def imported_bytes(imported: Imported) -> bytes:
    """Return the content of the file."""
    return msgspec.json.format(msgspec.json.encode(imported), indent=2) + b"\n"


E = TypeVar("E", bound=AnyEvent)
UNDONE = (StepTaken, Validated, Saved)


@dataclass(frozen=True)
class RunView:
    """Everything known of a run.

    It leaves out what a crash undid, but `seen` holds the times of all events of rank 0.
    `steps`, `validations`, `saves`, `warnings` are those of rank 0; `ranks` holds every rank's
    steps. `losses` holds every lost process once, as the first sidecar saw it. `imported` is
    the origin of a run of another trainer. `sentence_losses` are those of the validations, as
    far as they were written. `machines` holds the samples of each machine, by its first rank.
    `found` is what the live diagnosis announced. `undone` is the time of updates, validations
    and saves that a crash or a roll-back undid. `message` says why the run failed, in its own
    words. `gone` means that the leading process has certainly ended, `alive` that it certainly
    runs; on another machine, neither is known. `damaged` has a sentence for each damaged file.
    """

    path: Path
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    corpus: dict[str, Any] = field(default_factory=dict)
    starts: tuple[Started, ...] = ()
    ranks: dict[int, tuple[StepTaken, ...]] = field(default_factory=dict)
    validations: tuple[Validated, ...] = ()
    saves: tuple[Saved, ...] = ()
    warnings: tuple[Warned, ...] = ()
    tests: tuple[Tested, ...] = ()
    adapted: tuple[Adapted, ...] = ()
    losses: tuple[Lost, ...] = ()
    ends: tuple[Ended, ...] = ()
    samples: dict[int, tuple[Sample, ...]] = field(default_factory=dict)
    seen: tuple[float, ...] = ()
    imported: Imported | None = None
    sentence_losses: SentenceLosses = field(default_factory=SentenceLosses)
    machines: dict[int, MachineLog] = field(default_factory=dict)
    found: tuple[Found, ...] = ()
    undone: float = 0.0
    message: str = ""
    gone: bool = False
    alive: bool = False
    damaged: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[StepTaken, ...]:
        """Return the updates as rank 0 recorded them."""
        return self.ranks.get(0, ())

    @property
    def hosts(self) -> tuple[str, ...]:
        """Return the names of the machines of the last start, each once."""
        return tuple(dict.fromkeys(start.host for start in self.last_starts))

    @property
    def last_starts(self) -> tuple[Started, ...]:
        """Return the latest start of each rank of the last session, in order of rank."""
        return latest_starts(self.starts)


def read_run(path: Path) -> RunView:
    """Read the run directory at `path`, finished, running or broken off."""
    directory, damage = RunDirectory(path), DamageLog(path)
    config = read_config(path, damage)
    recorded = {
        rank: damage.events(file, from_lines)
        for rank, file in numbered_files(path / "events", "rank", ".jsonl")
    }
    by_rank = {rank: _standing(events) for rank, events in recorded.items()}
    leader = by_rank.get(0, [])
    starts = [e for events in by_rank.values() for e in of_kind(events, Started)]
    lives = leader_lives(directory, starts)
    machines = read_machines(directory, damage)
    status = damage.parsed(directory.status, msgspec.json.Decoder(Status).decode)
    return RunView(
        path=path,
        config=config,
        environment=damage.table(directory.environment),
        corpus=damage.table(directory.corpus),
        starts=told_apart(starts),
        ranks={rank: tuple(of_kind(events, StepTaken)) for rank, events in by_rank.items()},
        validations=tuple(of_kind(leader, Validated)),
        saves=tuple(of_kind(leader, Saved)),
        warnings=(
            *warnings_of(leader),
            *(w for log in machines.values() for w in log.warnings),
        ),
        tests=tuple(of_kind(leader, Tested)),
        adapted=tuple(of_kind(leader, Adapted)),
        losses=lost_once([e for events in recorded.values() for e in of_kind(events, Lost)]),
        ends=tuple(of_kind(leader, Ended)),
        samples=_samples(directory.samples, of_kind(leader, Validated), damage),
        seen=tuple(event.time for event in recorded.get(0, [])),
        imported=_imported(path, damage),
        sentence_losses=read_losses(path, {v.step: v.loss for v in of_kind(leader, Validated)}),
        machines=machines,
        found=tuple(of_kind(leader, Found)),
        undone=_seconds(recorded.get(0, [])) - _seconds(leader),
        message=status.message if status and status.state in ENDED_BADLY else "",
        gone=lives is False,
        alive=lives is True,
        damaged=damage.sentences,
    )


def read_config(path: Path, damage: DamageLog) -> dict[str, Any]:
    """Return the settings of the run at `path`; without them it is not a run."""
    config, stream = RunDirectory(path).config, RunDirectory(path).stream
    if stream.is_dir() and not config.is_file():
        raise DataError(
            f"nothing of the run {path} is here yet: it was launched on other machines",
            where=str(path),
            fix=f"fetch its records as they come with `unisono attach {path}`, or what is "
            f"there now with `unisono pull {path}`",
        )
    if not config.is_file():
        raise DataError(
            f"{path} is not a run directory: it has no {config.name}",
            where=str(path),
            fix="name a directory that `unisono train` wrote, such as runs/demo",
        )
    return damage.table(config, toml_table)


def of_kind(events: Iterable[AnyEvent], kind: type[E]) -> list[E]:
    """Return the events of one kind."""
    return [event for event in events if isinstance(event, kind)]


def lost_once(told: Iterable[Lost]) -> tuple[Lost, ...]:
    """Return each lost process once: a sidecar on every surviving machine reports it."""
    first: dict[tuple[int, str, int], Lost] = {}
    for event in sorted(told, key=lambda event: event.time):
        first.setdefault((event.rank, event.host, event.pid), event)
    return tuple(first.values())


def warnings_of(events: Iterable[AnyEvent]) -> list[Warned]:
    """Return the warnings, roll-backs among them."""
    return [
        Warned(time=event.time, step=event.step, message=event.message)
        for event in events
        if isinstance(event, Warned | RolledBack)
    ]


def _seconds(events: Iterable[AnyEvent]) -> float:
    """Return how long updates, validations and saves took, where that is recorded."""
    told = (event.seconds for event in events if isinstance(event, UNDONE))
    return sum(seconds for seconds in told if math.isfinite(seconds))


def _standing(events: list[AnyEvent]) -> list[AnyEvent]:
    """Return the events without what a later start or a roll-back undid."""
    kept: list[AnyEvent] = []
    for event in events:
        add_event(kept, event)
    return kept


def add_event(kept: list[AnyEvent], event: AnyEvent) -> None:
    """Add `event` to those that stand, and take out what it undoes.

    A run that was killed at step 1900 goes on from its checkpoint at 1000: what it recorded
    between the two belongs to weights that no longer exist.
    """
    if isinstance(event, Started):
        kept[:] = _up_to(kept, event.step)
    elif isinstance(event, RolledBack):
        kept[:] = [e for e in _up_to(kept, event.to_step) if not _again(e, event)]
    kept.append(event)


def _up_to(events: list[AnyEvent], step: int) -> list[AnyEvent]:
    return [e for e in events if not isinstance(e, UNDONE) or e.step <= step]


def _again(event: AnyEvent, later: RolledBack) -> bool:
    # A run that was killed before it saved the roll-back makes the same one again.
    return isinstance(event, RolledBack) and event.number >= later.number


def _samples(
    directory: Path, told: list[Validated], damage: DamageLog
) -> dict[int, tuple[Sample, ...]]:
    """Return the samples of the validations that stand."""
    files = {  # all that older versions wrote
        step: damage.parsed(file, _sample_rows) or ()
        for step, file in numbered_files(directory, "step", ".tsv")
    }
    return {v.step: v.samples or files.get(v.step, ()) for v in told}


def _sample_rows(data: bytes) -> tuple[Sample, ...]:
    rows = [line.split("\t") for line in data.decode("utf-8").split("\n") if line]
    return tuple(Sample(*row) for row in rows if len(row) == 3)

"""What the benchmark knows of a trainer: how to install, start and read it."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from peers.task import THREADS, Job

INSIDE = Path(__file__).with_name("inside")


@dataclass(frozen=True)
class Update:
    """One update, when it ended, and the real tokens it learnt from: padding is none."""

    time: float
    target_tokens: float
    source_tokens: float
    sentences: float


@dataclass(frozen=True)
class Validation:
    """The loss of the validation set, in nats a target token, without smoothing."""

    time: float
    loss: float


Told = Update | Validation | None


@dataclass(frozen=True)
class Start:
    """A command, what it needs in its surroundings, and where and how it tells of updates.

    `read` gets a line of `journal` and the time it was seen.
    """

    command: Sequence[str | Path]
    journal: Path
    read: Callable[[str, float], Told]
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Translation:
    """A command that translates; `result` is a file it writes, or its standard output."""

    command: Sequence[str | Path]
    result: Path
    given: Path | None = None
    to_stdout: bool = False


class Peer(Protocol):
    """A trainer. `steps` are the arguments of `pip install`, one call after another.

    One that `ends_itself` stops after `Job.seconds`, and only then has what translates.
    """

    name: str
    package: str
    steps: tuple[tuple[str, ...], ...]
    note: str
    ends_itself: bool

    def start(self, job: Job, python: Path) -> Start:
        """Write the files of `job` and return the command that trains on them."""

    def translate(self, job: Job, python: Path, split: str) -> Translation | None:
        """Return the command that translates a split with what `job` trained, or none."""


def threads(count: int = THREADS) -> dict[str, str]:
    """Return the variables that give a process `count` threads to compute with."""
    return {name: str(count) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}


def hooked(python: Path, script: str, arguments: Sequence[str | Path], job: Job) -> Start:
    """Return the start of a trainer through one of our scripts `inside` its environment.

    The script starts the trainer's own command line, after putting a line of bookkeeping
    behind its update: `inside/journal.py` counts the batch as it went into the model.
    """
    journal = job.directory / "journal.jsonl"
    variables = {**threads(), "PEER_JOURNAL": str(journal), "PYTHONUNBUFFERED": "1"}
    return Start((python, INSIDE / script, *arguments), journal, read_journal, variables)


def read_journal(line: str, _: float) -> Told:
    """Read a line that `inside/journal.py` wrote."""
    table = json.loads(line)
    if "loss" in table:
        return Validation(table["time"], table["loss"])
    return Update(**table)

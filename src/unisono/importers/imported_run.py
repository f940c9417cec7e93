"""A run of another trainer, as far as its records go, and how it becomes a run directory."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from unisono.atomic import new_directory, write_bytes, write_text
from unisono.errors import ConfigError, DataError
from unisono.records.events import AnyEvent, Ended, Started, StepTaken, Validated, to_line
from unisono.records.layout import RunDirectory
from unisono.records.view import NAME, Imported, imported_bytes


@dataclass(frozen=True)
class UserFacts:
    """Facts from the command line that the records lack; 0 means not given."""

    processes: int = 0
    machines: int = 0
    parameters: int = 0
    link_bits_per_second: float = 0.0
    link_measured: bool = False

    def applied(self, about: Imported) -> Imported:
        """Add these facts to `about`; refuse one that contradicts it."""
        told = []
        for name in ("processes", "machines", "parameters"):
            mine, found = getattr(self, name), getattr(about, name)
            if mine and found and mine != found:
                raise ConfigError(
                    f"{found:,} {name} are recorded, not {mine:,}",
                    where=f"--{name}",
                    fix="leave it out: it is for what the records do not contain",
                )
            if mine and not found:
                told.append(name)
                about = msgspec.structs.replace(about, **{name: mine})
        if about.processes and about.machines > about.processes:
            raise ConfigError(
                f"{about.processes} processes cannot be on {about.machines} machines",
                where="--machines",
                fix="give the number of processes with --processes, too",
            )
        if self.link_bits_per_second:
            told.append("link")
        return msgspec.structs.replace(
            about,
            link_bits_per_second=self.link_bits_per_second,
            link_measured=self.link_measured,
            told=tuple(told),
        )


UNKNOWN = math.nan


def imported_step(
    step: int,
    time: float,
    *,
    loss: float,
    seconds: float,
    learning_rate: float = UNKNOWN,
    gradient_norm: float = UNKNOWN,
    epoch: int = 0,
    target_tokens: int = 0,
) -> StepTaken:
    """Return a record of training; `time` is Unix time, or counts from the start."""
    return StepTaken(
        time=time,
        step=step,
        epoch=epoch,
        loss=loss,
        gradient_norm=gradient_norm,
        learning_rate=learning_rate,
        target_tokens=target_tokens,
        source_tokens=0,
        positions=0,
        sentences=0,
        seconds=seconds,
    )


@dataclass(frozen=True)
class ImportedRank:
    """A process of the run; "" and 0 mean unknown."""

    rank: int
    host: str = ""
    pid: int = 0
    local_rank: int = 0
    interface: str = ""
    address: str = ""


@dataclass(frozen=True)
class ImportedRun:
    """Everything that was found; `config` holds the settings that could be converted."""

    about: Imported
    steps: tuple[StepTaken, ...]
    validations: tuple[Validated, ...] = ()
    ranks: tuple[ImportedRank, ...] = ()
    began: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)


def write_run(run: ImportedRun, to: Path) -> None:
    """Write `run` as the run directory `to`, which must not exist or be empty."""
    check_free(to)
    try:
        if to.is_dir():
            to.rmdir()
        _write(run, to)
    except OSError as error:
        raise DataError(
            f"{to} cannot be written: {error.strerror}",
            where="--to",
            fix="choose a place with room where you may write",
        ) from error


def _write(run: ImportedRun, to: Path) -> None:
    with new_directory(to) as place:
        directory = RunDirectory(place)
        directory.events(0).parent.mkdir()
        write_text(directory.config, tomli_w.dumps(run.config))
        if run.environment:
            text = msgspec.json.format(msgspec.json.encode(run.environment), indent=2)
            write_bytes(directory.environment, text + b"\n")
        write_bytes(place / NAME, imported_bytes(run.about))
        with directory.events(0).open("wb") as file:
            file.writelines(to_line(event) + b"\n" for event in _events(run))
        for rank in run.ranks[1:]:
            if not rank.host:
                continue  # only its rank is known
            directory.events(rank.rank).write_bytes(to_line(_start(run, rank)) + b"\n")


def check_free(to: Path) -> None:
    """Raise a DataError if there is anything at `to`: nothing is ever overwritten."""
    if to.is_symlink() or (to.exists() and not to.is_dir()):
        raise DataError(f"{to} exists already", where="--to", fix="choose another name")
    if to.is_dir() and any(to.iterdir()):
        raise DataError(
            f"{to} exists already and is not empty",
            where="--to",
            fix="choose another directory; nothing is overwritten",
        )


def _events(run: ImportedRun) -> Iterator[AnyEvent]:
    if run.ranks:
        yield _start(run, run.ranks[0])
    happened: list[StepTaken | Validated] = [*run.steps, *run.validations]
    yield from sorted(happened, key=lambda event: (event.time, event.step))
    if run.about.ended and run.steps:
        last = run.steps[-1]
        seconds = last.time - run.began
        yield Ended(time=last.time, step=last.step, reason="finished", seconds=seconds)


def _start(run: ImportedRun, rank: ImportedRank) -> Started:
    return Started(
        time=run.began,
        step=0,
        rank=rank.rank,
        size=run.about.processes,
        local_rank=rank.local_rank,
        host=rank.host,
        pid=rank.pid,
        device=run.about.device or "unknown",
        threads=0,
        strategy=run.about.trainer,
        parameters=run.about.parameters,
        updates_per_epoch=0,
        interface=rank.interface,
        address=rank.address,
    )

"""Fetching the records of a run on other machines, for `launch`, `attach` and `pull`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from unisono.errors import ConfigError, UnisonoError
from unisono.launch.places import Place
from unisono.launch.plan import Host
from unisono.launch.stream.client import RemoteMachine
from unisono.launch.stream.launch_record import LaunchRecord, write_launch_record
from unisono.launch.stream.run_stream import RunStream

# After the end of a run: how long to wait for machines that have more to give.
LAST_RECORDS_SECONDS = 60.0


@dataclass(frozen=True)
class RecordOptions:
    """What the user wants of the records: where they go, and whether checkpoints come, too."""

    records: Path | None = None
    fetch_checkpoints: bool = False

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> "RecordOptions":
        """Return what the command line says."""
        return cls(
            **{one.name: options[one.name] for one in fields(cls) if one.name in options}
        )


def launched_at(
    hosts: Sequence[Host],
    places: Sequence[Place],
    run: str,
    ssh_config: Path | None,
    options: RecordOptions,
) -> LaunchRecord:
    """Return what to write down about a launch on `hosts`, which have `run` at `places`."""
    found = zip(hosts, places, strict=True)
    return LaunchRecord(
        machines=tuple(RemoteMachine(h.name, at.python, at.directory) for h, at in found),
        run=run,
        ssh_config=str(ssh_config.absolute()) if ssh_config else "",
        checkpoints=options.fetch_checkpoints,
    )


@contextmanager
def streaming(launched: LaunchRecord, here: Path) -> Iterator[None]:
    """Fetch the records of a run into the directory `here` while the block runs."""
    stream = open_stream(launched, here, create=True, checkpoints=launched.checkpoints)
    stream.start()
    yield
    finish(stream)


def open_stream(
    launched: LaunchRecord, here: Path, *, create: bool, checkpoints: bool
) -> RunStream:
    """Return the stream of a run's records; raise an error if they cannot be kept here."""
    try:
        stream = RunStream(launched.remote, here, talk, create=create, checkpoints=checkpoints)
        if create:
            write_launch_record(here, launched)
    except OSError as error:
        raise ConfigError(
            f"the records of the run cannot be kept here: {error.strerror}",
            where=str(here),
            fix="choose another directory with --records",
        ) from error
    return stream


def finish(stream: RunStream, seconds: float = LAST_RECORDS_SECONDS) -> bool:
    """Fetch what is left; say who has more to give, and return whether nobody has."""
    late = stream.finish(seconds)
    for host, why in late.items():
        talk(f"{host} may have more records than are here: {why or 'it is slow'}")
    if late:
        talk(f"  fix:   once they answer again: unisono pull {stream.here}")
    return not late


def talk(text: str) -> None:
    """Tell the user something; if nobody reads it, go on."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, UnisonoError):
        return

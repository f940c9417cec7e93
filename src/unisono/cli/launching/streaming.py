"""Fetching the records of a run on other machines, for `launch`, `attach` and `pull`."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from unisono.diagnose.case import open_case
from unisono.diagnose.evidence.spending import idle_words
from unisono.errors import ConfigError, DataError, UnisonoError
from unisono.launch.places import Place
from unisono.launch.plan import Host
from unisono.launch.probe_client import UnreachableError
from unisono.launch.stream.client import RemoteMachine, StreamClient
from unisono.launch.stream.launch_record import LaunchRecord, write_launch_record
from unisono.launch.stream.messages import SignalRun, YesOrNo
from unisono.launch.stream.run_stream import RunStream
from unisono.records.view import read_run

# After the end of a run: how long to wait for machines that have more to give.
LAST_RECORDS_SECONDS = 60.0


@dataclass(frozen=True)
class RecordOptions:
    """What the user wants of the records: where they go, and whether checkpoints come, too."""

    records: Path | None = None
    fetch_checkpoints: bool = False
    detach: bool = False
    remind: float = 0.0

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
        detached=options.detach,
        remind=options.remind,
        started=time.time(),
    )


@contextmanager
def streaming(launched: LaunchRecord, here: Path) -> Iterator[None]:
    """Fetch the records of a run into the directory `here` while the block runs."""
    stream = open_stream(launched, here, create=True, checkpoints=launched.checkpoints)
    stream.start()
    yield
    finish(stream)
    remind_of_idle(here, launched.remind)


def start_detached(
    launched: LaunchRecord, here: Path, start: Callable[[], tuple[int, Mapping[int, int]]]
) -> int:
    """Start a run that goes on without us; if one machine fails, stop those that began.

    `start` returns the exit code, and those of the nodes.
    """
    with _keeping(here):
        write_launch_record(here, launched)
    code, codes = start()
    for node in [node for node, one in codes.items() if code and not one]:
        host = launched.machines[node].host
        with (
            suppress(UnreachableError, DataError),
            StreamClient(launched.remote, host, create=False) as client,
        ):
            client.ask(SignalRun(node, kill=True), YesOrNo)
    if not code:
        word = shlex.quote(str(here))
        talk(
            "started; it goes on without this machine\n"
            f"  follow: unisono attach {word} (Ctrl-C leaves it alone)\n"
            f"  stop:   unisono attach {word} --stop (saves; the same command continues)"
        )
    return code


@contextmanager
def _keeping(here: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"the records of the run cannot be kept here: {error.strerror}",
            where=str(here),
            fix="choose another directory with --records",
        ) from error


def open_stream(
    launched: LaunchRecord, here: Path, *, create: bool, checkpoints: bool
) -> RunStream:
    """Return the stream of a run's records; raise an error if they cannot be kept here."""
    with _keeping(here):
        stream = RunStream(launched.remote, here, talk, create=create, checkpoints=checkpoints)
        if create:
            write_launch_record(here, launched)
    return stream


def finish(
    stream: RunStream, seconds: float = LAST_RECORDS_SECONDS, *, quiet: bool = False
) -> bool:
    """Fetch what is left; say who has more to give, and return whether nobody has."""
    late = stream.finish(seconds)
    if quiet:
        return not late
    for host, why in late.items():
        talk(f"{host} may have more records than are here: {why or 'it is slow'}")
    if late:
        talk(f"  fix:   once they answer again: unisono pull {shlex.quote(str(stream.here))}")
    return not late


def remind_of_idle(run: Path, minutes: float = 0.0) -> None:
    """Say what the machines cost since the run is over; with `minutes`, again until Ctrl-C."""
    with suppress(KeyboardInterrupt):
        while words := _idle_words(run):
            talk(words)
            if not minutes:
                return
            time.sleep(60 * minutes)


def _idle_words(run: Path) -> str:
    with suppress(UnisonoError, OSError):
        return idle_words(open_case(read_run(run), time.time()))
    return ""


def talk(text: str) -> None:
    """Tell the user something; if nobody reads it, go on."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, UnisonoError):
        return

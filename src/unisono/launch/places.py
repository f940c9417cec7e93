"""Where a launch runs on each machine: its Python and its working directory there.

A relative `run` of the config lies below that working directory. `launch` keeps a record of the
places here, beside the local run directory, so that later commands find the run again.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.errors import ConfigError
from unisono.small_files import PARSER_ERRORS, read_bytes, reason

PLACES_FORMAT = 1


class Place(msgspec.Struct, frozen=True):
    """The Python that runs Unisono on a machine, and its working directory; both absolute."""

    python: str
    directory: str


class PlacesRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The places of a launch by the names that ssh has for its machines.

    `run` is the run directory as the settings name it; `ssh_config` the file for `ssh -F`.
    """

    format: int = PLACES_FORMAT
    run: str
    ssh_config: str = ""
    machines: dict[str, Place]

    def run_on(self, host: str) -> str:
        """Return the absolute run directory on a machine."""
        return str(Path(self.machines[host].directory) / self.run)


def places_file(run: Path) -> Path:
    """Return the file that says where the machines of a run keep it: beside the directory."""
    return run.with_name(f"{run.name}.places.json")


def write_places(
    run: Path, machines: Mapping[str, Place], *, run_there: str, ssh_config: str = ""
) -> None:
    """Write down where the machines keep the run whose directory here is `run`."""
    record = PlacesRecord(run=run_there, ssh_config=ssh_config, machines=dict(machines))
    path = places_file(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(path, msgspec.json.format(msgspec.json.encode(record)) + b"\n")


def read_places(run: Path) -> PlacesRecord | None:
    """Return where the machines keep a run, or None if no launch has written it down."""
    path = places_file(run)
    if not path.is_file():
        return None
    try:
        return msgspec.json.decode(read_bytes(path), type=PlacesRecord)
    except (OSError, *PARSER_ERRORS) as error:
        raise ConfigError(
            f"cannot read {path}: {reason(error)}",
            where=str(path),
            fix="name the machines with --hosts and their directory with --directory",
        ) from error

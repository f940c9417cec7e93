"""How a run was launched: what `attach` and `pull` need to find its machines again.

The file `stream/launch.json` lies in the run directory here. It holds no secret.
"""

from pathlib import Path

import msgspec

from unisono import atomic
from unisono.launch.ssh import Ssh
from unisono.launch.stream.client import RemoteMachine, RemoteRun
from unisono.records.layout import RunDirectory
from unisono.small_files import read_parsed

LAUNCH_RECORD = "launch.json"


class LaunchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The machines of a run by node, and where it is on them."""

    machines: tuple[RemoteMachine, ...]
    run: str
    ssh_config: str = ""
    detached: bool = False
    started: float = 0.0
    checkpoints: bool = False
    remind: float = 0.0  # minutes
    format: int = 1

    @property
    def remote(self) -> RemoteRun:
        """Return the run as the machines have it."""
        return RemoteRun(Ssh(self.ssh_config), self.run, self.machines)


def write_launch_record(run: Path, record: LaunchRecord) -> None:
    """Write the record into the run directory here."""
    place = RunDirectory(run).stream
    place.mkdir(parents=True, exist_ok=True)
    atomic.write_bytes(place / LAUNCH_RECORD, msgspec.json.encode(record))


def read_launch_record(run: Path) -> LaunchRecord | None:
    """Return how the run was launched, or None if that is not recorded here."""
    path = RunDirectory(run).stream / LAUNCH_RECORD
    if not path.is_file():
        return None
    decoder = msgspec.json.Decoder(LaunchRecord)
    return read_parsed(path, decoder.decode, fix="name the machines with --hosts")

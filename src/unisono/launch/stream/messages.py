"""What is said over the connection to a machine's record server.

A message is a line of JSON; `length` bytes follow it, where it has that field. The client asks,
the server answers each request once. Sizes and names have bounds on both sides.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

MOST_PAYLOAD_BYTES = 64 * 2**20
LONGEST_STREAM_MESSAGE = 16 * 2**20
Amount = Annotated[int, Meta(ge=0, le=2**53)]
Identity = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]
MomentNs = Annotated[int, Meta(ge=-(2**62), le=2**62)]
Name = Annotated[str, Meta(max_length=300)]


class Greet(msgspec.Struct, frozen=True, tag=True):
    """Serve this run directory; `create` it if it is missing. The answer repeats `token`."""

    run: str
    token: str
    create: bool = False


class Greeted(msgspec.Struct, frozen=True, tag=True):
    """The directory that is served; `has_run` if a run was started there before."""

    token: str
    identity: Identity
    has_run: bool = False


class ListRecords(msgspec.Struct, frozen=True, tag=True):
    """List the files that travel; with `checkpoints`, also complete checkpoints."""

    checkpoints: bool = False


class RecordEntry(msgspec.Struct, frozen=True, array_like=True):
    """A file: its name, its bytes, and when it changed."""

    name: Name
    size: Amount
    mtime_ns: MomentNs


class RecordList(msgspec.Struct, frozen=True, tag=True):
    """All files that travel, and the names of checkpoints."""

    entries: list[RecordEntry]
    checkpoints: list[Name] = []


class ReadRecord(msgspec.Struct, frozen=True, tag=True):
    """Send this directory's own bytes of a growing file, from `offset` on."""

    name: Name
    offset: Amount


class ReadWhole(msgspec.Struct, frozen=True, tag=True):
    """Send a whole file."""

    name: Name


class ReadCheckpoint(msgspec.Struct, frozen=True, tag=True):
    """Send bytes of a file of a checkpoint, from `offset` on."""

    checkpoint: str
    file: str
    offset: Amount


class RecordBytes(msgspec.Struct, frozen=True, tag=True):
    """Bytes of a file that begin at `start`; `mtime_ns` is when a whole file changed."""

    start: Amount
    length: Amount
    mtime_ns: MomentNs = 0


class AskOffsets(msgspec.Struct, frozen=True, tag=True):
    """Say how far you have the files of another directory."""

    source: Identity


class Offsets(msgspec.Struct, frozen=True, tag=True):
    """How far the files of a directory are there, by name."""

    offsets: dict[Name, Amount] = {}


class AppendRecord(msgspec.Struct, frozen=True, tag=True):
    """Add the bytes that follow, which begin at `start` in the file of `source`."""

    source: Identity
    name: Name
    start: Amount
    length: Amount


class PutMark(msgspec.Struct, frozen=True, tag=True):
    """Make a file with this token in your directory."""

    token: str


class AskMark(msgspec.Struct, frozen=True, tag=True):
    """Say whether your directory has a file with this token."""

    token: str


class Renew(msgspec.Struct, frozen=True, tag=True):
    """Your directory is a copy of another: take a new identity, and say which."""


class SignalRun(msgspec.Struct, frozen=True, tag=True):
    """Ask the detached processes of a node to stop and save; with `kill`, kill them."""

    node: int
    kill: bool = False


class YesOrNo(msgspec.Struct, frozen=True, tag=True):
    """Yes or no."""

    yes: bool


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The request failed: why, and how to fix it."""

    what: str
    where: str = ""
    fix: str = ""


StreamRequest = (
    Greet
    | ListRecords
    | ReadRecord
    | ReadWhole
    | ReadCheckpoint
    | AskOffsets
    | AppendRecord
    | PutMark
    | AskMark
    | Renew
    | SignalRun
)
StreamReply = Greeted | RecordList | RecordBytes | Offsets | YesOrNo | Refused

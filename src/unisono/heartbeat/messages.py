"""What workers and sidecars send each other: JSON objects, validated as data.

Between machines each is a frame of an authenticated channel, between a worker and its sidecar a
line.
"""

from typing import Literal, TypeVar

import msgspec

from unisono.secure.channel import Endpoint

LONGEST_LINE = 65536

How = Literal["process died", "process stopped", "machine or link gone"]
Condition = Literal["alive", "died", "stopped", "left", "failed"]


class GroupMember(msgspec.Struct, frozen=True):
    """A process of the run, and where it runs."""

    rank: int
    host: str
    pid: int
    local_rank: int = 0

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host} (pid {self.pid})"


class SidecarConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells its sidecar at the start.

    `listen` is the open socket on which rank 0's sidecar receives heartbeats, at `address` and
    `port`, or at the path `address`; `token` is their secret in hexadecimal digits. Within
    `limit` seconds, every sidecar names a lost rank. `then` says what happens to the run after
    that. One that `replaces` a sidecar knows that all ranks have been heard before.
    """

    rank: int
    members: tuple[GroupMember, ...]
    address: str
    port: int
    token: str
    limit: float
    agent: int = 0
    listen: int = -1
    run: str = ""
    then: str = ""
    replaces: bool = False

    @property
    def endpoint(self) -> Endpoint:
        """Return where the sidecar of rank 0 listens."""
        return (self.address, self.port) if self.port else self.address

    @property
    def secret(self) -> bytes:
        """Return the secret of the heartbeats."""
        return bytes.fromhex(self.token)

    @property
    def worker(self) -> GroupMember:
        """Return the process that the sidecar looks after."""
        return self.members[self.rank]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells its sidecar later on: how far it is, or that it leaves.

    If the worker dies, its sidecar reports `message` as the reason.
    """

    step: int = 0
    section: str = ""
    leaves: Literal["", "done", "failed"] = ""
    message: str = ""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a sidecar sends to that of rank 0 every second: all it knows of its worker."""

    rank: int
    condition: Condition
    detail: str = ""
    announced: bool = False


class Loss(msgspec.Struct, frozen=True):
    """A rank that is lost, and how."""

    rank: int
    how: How
    detail: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0's sidecar replies: who is lost."""

    lost: tuple[Loss, ...] = ()


class LossVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a sidecar tells its worker when a rank is lost."""

    message: str


Message = TypeVar("Message", SidecarConfig, Note, Heartbeat, Reply, LossVerdict)


def to_line(message: msgspec.Struct) -> bytes:
    """Return `message` as a line, with its end."""
    return msgspec.json.encode(message) + b"\n"


def from_line(line: bytes, kind: type[Message]) -> Message | None:
    """Return the message in `line`, or None if it is not of that kind."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

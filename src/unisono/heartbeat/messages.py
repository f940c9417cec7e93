"""What watchmen and workers say to each other: one JSON object a line, checked as data."""

from typing import Literal, TypeVar

import msgspec

LONGEST_LINE = 65536

How = Literal["process died", "process stopped", "machine or link gone"]
Condition = Literal["alive", "died", "stopped", "left", "failed"]


class GroupMember(msgspec.Struct, frozen=True):
    """A process of the run, and where it is."""

    rank: int
    host: str
    pid: int
    local_rank: int = 0

    def __str__(self) -> str:
        return f"rank {self.rank} on {self.host} (pid {self.pid})"


class SidecarConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells its watchman at the start.

    `listen` is the number of the open socket on which rank 0's watchman is called by the
    others, `limit` the seconds after which a lost rank has to be named, `then` what happens
    after that, in words.
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

    @property
    def me(self) -> GroupMember:
        """Return the process that is watched."""
        return self.members[self.rank]


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker tells its watchman later on: where it is, or how it leaves.

    `words` are said for it if it dies.
    """

    step: int = 0
    section: str = ""
    leaves: Literal["", "done", "failed"] = ""
    words: str = ""


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """What a watchman tells that of rank 0, again and again: all that it knows."""

    token: str
    rank: int
    condition: Condition
    detail: str = ""
    told: bool = False


class Loss(msgspec.Struct, frozen=True):
    """A rank that is lost, and how."""

    rank: int
    how: How
    detail: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0's watchman answers: who is lost."""

    token: str
    lost: tuple[Loss, ...] = ()


class LossVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What a watchman tells its worker when somebody is lost."""

    words: str


Message = TypeVar("Message", SidecarConfig, Note, Heartbeat, Reply, LossVerdict)


def to_line(message: msgspec.Struct) -> bytes:
    """Return `message` as a line, with its end."""
    return msgspec.json.encode(message) + b"\n"


def from_line(line: bytes, kind: type[Message]) -> Message | None:
    """Return the message in `line`, or None if it is not one of that kind."""
    try:
        return msgspec.json.decode(line, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None

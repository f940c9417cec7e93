"""What a machine answers when something is brought to it; all of it is checked here."""

import msgspec


class Refusal(msgspec.Struct, frozen=True):
    """Why a machine did not do something, and how to fix it."""

    what: str
    where: str = ""
    fix: str = ""


class MachineState(msgspec.Struct, frozen=True, kw_only=True):
    """A machine before anything is brought: `has` this code, and `trees` of earlier calls.

    `base` is the directory on it, `free` the bytes left there, `time` its clock.
    """

    token: str
    has: bool
    base: str
    python: str
    machine: str
    libc: str
    free: int
    gpu: bool
    time: float
    trees: list[str]


class FirstLine(msgspec.Struct, frozen=True):
    """The machine answers, and perhaps refuses."""

    token: str
    refused: Refusal | None = None


class Room(msgspec.Struct, frozen=True):
    """How many bytes are needed for what is missing, and how many are free."""

    needed: int
    free: int


class Unused(msgspec.Struct, frozen=True):
    """Directories of earlier calls that nothing needs any more, with their bytes."""

    trees: dict[str, int]


class MissingContents(msgspec.Struct, frozen=True):
    """Contents that the machine lacks: SHA-256, bytes, and how many of them are there."""

    missing: list[tuple[str, int, int]]


class Arrived(msgspec.Struct, frozen=True):
    """How many bytes of a content are there."""

    have: int


class Serving(msgspec.Struct, frozen=True):
    """The machine serves what it has on this port, and has these addresses."""

    port: int
    addresses: list[str]


class Done(msgspec.Struct, frozen=True):
    """Something was done."""


class Built(msgspec.Struct, frozen=True):
    """The environment is there; `built` if it was not before."""

    built: bool


class JoinedPython(msgspec.Struct, frozen=True):
    """The Python that has Unisono."""

    python: str


class ServerLine(msgspec.Struct, frozen=True):
    """What an answer may be instead: a refusal, or what the machine is doing meanwhile."""

    progress: str = ""
    refused: Refusal | None = None

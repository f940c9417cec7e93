"""What a launcher asks a machine before a launch, and what it may hear: JSON, one a line."""

from typing import Any

import msgspec


class Tell(msgspec.Struct, frozen=True, tag=True):
    """What is the time?"""


class Now(msgspec.Struct, frozen=True, tag=True):
    """The time, in seconds since 1970."""

    time: float


class Describe(msgspec.Struct, frozen=True, tag=True):
    """Who are you, and what would you train?"""

    directory: str
    config: str
    overrides: tuple[str, ...] = ()


class Trouble(msgspec.Struct, frozen=True):
    """Something that keeps a machine from training: what, where, and what to do about it."""

    what: str
    where: str = ""
    fix: str = ""


class Facts(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """A machine. What it does not know is empty.

    `address` is the one by which it was reached; `settings` are those of the run, all of them.
    """

    host: str = ""
    address: list[str] = []
    python: str = ""
    unisono: str = ""
    code: str = ""
    torch: str = ""
    settings: dict[str, Any] = {}
    corpus: str = ""
    pairs: int = 0
    run: str = ""
    free_bytes: int = 0
    needed_bytes: int = 0
    troubles: tuple[Trouble, ...] = ()


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Take this port, and show the token to whoever calls."""

    port: int
    token: str


class Listening(msgspec.Struct, frozen=True, tag=True):
    """The port is taken."""


class Connect(msgspec.Struct, frozen=True, tag=True):
    """Call there; who answers with the token is the right one."""

    address: str
    port: int
    token: str


class Connected(msgspec.Struct, frozen=True, tag=True):
    """Somebody answered at this numeric address."""

    address: str
    is_right: bool


class Failed(msgspec.Struct, frozen=True, tag=True):
    """It did not work."""

    what: str
    where: str = ""
    fix: str = ""


Question = Tell | Describe | Listen | Connect
Answer = Now | Facts | Listening | Connected | Failed

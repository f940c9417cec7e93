"""`status.json`: in one look, how it stands with a run. Written by the leading process.

torchrun ends with 1 even after everything was saved; this file knows better.
"""

import os
import time
from contextlib import suppress
from typing import Literal

import msgspec

from unisono.records.layout import RunDirectory

State = Literal["starting", "running", "done", "preempted", "failed", "lost"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """How it stands. `exit_code` is that of the leading process, -1 while it runs.

    A run that says `running`, but has not said so for a while, was killed with its machine.
    """

    state: State
    step: int = 0
    time: float = 0.0
    exit_code: int = -1
    message: str = ""
    host: str = ""
    pid: int = 0
    format: int = 1


def write_status(directory: RunDirectory, status: Status) -> None:
    """Write `status`, with the time of now; readers see the old or the new, never a part."""
    path = directory.status
    stamped = msgspec.structs.replace(status, time=time.time())
    text = msgspec.json.format(msgspec.json.encode(stamped), indent=2) + b"\n"
    # Not forced to the disk: it is written often, and after a power cut it is out of date.
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    temporary.write_bytes(text)
    temporary.rename(path)


def read_status(directory: RunDirectory) -> Status | None:
    """Return how it stands with a run, or None if it does not say."""
    with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(directory.status.read_bytes(), type=Status)
    return None

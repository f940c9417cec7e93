"""`status.json`: the state of a run, and whether its leading process is still alive.

The leading process writes the file. torchrun exits with 1 even after everything was saved;
this file says what happened. On the leader's own machine, its process and its lock say more.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from unisono.lock import is_locked
from unisono.records.events import Seconds, Started, Whole
from unisono.records.layout import RunDirectory
from unisono.records.monitor_events import shared_names
from unisono.small_files import PARSER_ERRORS, read_bytes

State = Literal["starting", "running", "done", "preempted", "failed", "lost"]


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a run. `exit_code` is that of the leading process, -1 while it runs.

    A run whose status is `running` but old was killed together with its machine.
    """

    state: State
    step: Whole = 0
    time: Seconds = 0.0
    exit_code: int = -1
    message: str = ""
    host: str = ""
    pid: int = 0
    format: int = 1


def write_status(directory: RunDirectory, status: Status) -> None:
    """Write `status` with the current time; readers see the old or the new, never a part."""
    path = directory.status
    stamped = msgspec.structs.replace(status, time=time.time())
    text = msgspec.json.format(msgspec.json.encode(stamped), indent=2) + b"\n"
    # Not forced to the disk: it changes often, and after a power cut it is outdated anyway.
    temporary = path.with_name(f".tmp-{path.name}-{os.getpid()}")
    try:
        temporary.write_bytes(text)
        temporary.rename(path)
    except OSError:
        # On a full disk the old status still has its block; better torn than wrong.
        temporary.unlink(missing_ok=True)
        with path.open("r+b") as file:
            file.write(text)
            file.truncate()


def read_status(directory: RunDirectory) -> Status | None:
    """Return the status of a run, or None if there is none."""
    with suppress(OSError, *PARSER_ERRORS):
        return msgspec.json.decode(read_bytes(directory.status), type=Status)
    return None


ENDED_BADLY = ("failed", "lost")
SAME_PROCESS_SECONDS = 60.0  # clocks may be adjusted; no pid is reused so soon


def leader_lives(directory: RunDirectory, starts: Sequence[Started]) -> bool | None:
    """Return whether the leading process of the last start runs; None if that is unknown.

    On another machine it is unknown, unless the run recorded that it failed. `starts` must
    hold the machines' own names.
    """
    leading = [start for start in starts if start.rank == 0]
    if not leading:
        return None
    start = max(leading, key=lambda start: start.time)
    status = read_status(directory)
    if status is not None and status.time >= start.time and status.state in ENDED_BADLY:
        return False
    if not _is_here(start, starts):
        return None
    # Inside a container, a pid of the host says nothing. The lock does.
    held, there = is_locked(directory.lock), _has_its_number(start)
    if held is None:
        return True if there else None
    return None if there and not held else held


def _is_here(start: Started, starts: Sequence[Started]) -> bool:
    if start.host != os.uname().nodename:
        return False
    own = (one.address for found in psutil.net_if_addrs().values() for one in found)
    return start.host not in shared_names(starts) or start.address in own


def _has_its_number(start: Started) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(start.pid)
        same = process.create_time() < start.time + SAME_PROCESS_SECONDS
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    return False


def was_preempted(run: Path, *, since: float) -> bool:
    """Return whether a run that ended after `since` was stopped by a signal and has saved.

    torchrun exits with 1 even after a perfect save, so the status decides. The status of an
    earlier session does not count.
    """
    status = read_status(RunDirectory(run))
    return status is not None and status.state == "preempted" and status.time >= since

"""Is the process that leads a run still there? On its own machine that can be told at once."""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from unisono.records.events import Started
from unisono.records.layout import RunDirectory
from unisono.records.status import read_status

ENDED_BADLY = ("failed", "lost")
SAME_PROCESS_SECONDS = 60.0  # clocks may be set; no number of a process comes back so soon


def leader_is_gone(directory: RunDirectory, starts: Sequence[Started]) -> bool:
    """Return whether the process that led the last start has certainly ended.

    If not, it lives, or that cannot be told from here, such as on another machine.
    """
    leading = [start for start in starts if start.rank == 0]
    if not leading:
        return False
    start = max(leading, key=lambda start: start.time)
    status = read_status(directory)
    if status is not None and status.time >= start.time and status.state in ENDED_BADLY:
        return True
    if start.host != os.uname().nodename or _lives(start):
        return False
    # In a container, the number of a process outside of it says nothing. The lock does.
    return _is_free(directory.lock)


def _lives(start: Started) -> bool:
    with suppress(psutil.Error):
        process = psutil.Process(start.pid)
        same = process.create_time() < start.time + SAME_PROCESS_SECONDS
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _is_free(lock: Path) -> bool:
    """Return whether nobody holds `lock`; whoever wants it meanwhile tries again."""
    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)

"""Is the process that leads a run still there? On its own machine that can be told at once."""

import fcntl
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from unisono.records.events import Started
from unisono.records.hosts import shared_names
from unisono.records.layout import RunDirectory
from unisono.records.status import read_status

ENDED_BADLY = ("failed", "lost")
SAME_PROCESS_SECONDS = 60.0  # clocks may be set; no number of a process comes back so soon


def leader_lives(directory: RunDirectory, starts: Sequence[Started]) -> bool | None:
    """Return whether the process that led the last start lives; None if nobody can tell.

    That is so on another machine, unless the run itself wrote down that it failed. `starts`
    have the names that the machines have themselves.
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
    # In a container, the number of a process outside of it says nothing. The lock does.
    held, there = _is_held(directory.lock), _has_its_number(start)
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


def _is_held(lock: Path) -> bool | None:
    """Return whether somebody holds `lock`; whoever wants it meanwhile tries again.

    None where there is none, or the disk knows no locks.
    """
    try:
        handle = os.open(lock, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    else:
        return False
    finally:
        os.close(handle)

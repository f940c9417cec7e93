"""A detached wrapper on its machine: its output, its state, and how to reach it.

`stream/node-0001.log` has what the processes of a node print, `stream/node-0001.json` the state
of their wrapper, which holds the lock of `stream/node-0001.lock` while it lives.
"""

import os
import signal
from pathlib import Path

import msgspec

from unisono.lock import is_locked
from unisono.records.layout import RunDirectory
from unisono.small_files import PARSER_ERRORS, read_bytes


class WrapperState(msgspec.Struct, frozen=True, kw_only=True):
    """The wrapper of a node: its process, and the exit code once it has ended."""

    pid: int
    host: str = ""
    started: float = 0.0
    exit_code: int | None = None


def wrapper_file(run: Path, node: int, suffix: str) -> Path:
    """Return the log, state (json) or lock of the wrapper of a node."""
    return RunDirectory(run).stream / f"node-{node:04d}.{suffix}"


def read_wrapper(run: Path, node: int) -> WrapperState | None:
    """Return the state of a node's wrapper, or None if there is none."""
    try:
        data = read_bytes(wrapper_file(run, node, "json"))
        return msgspec.json.decode(data, type=WrapperState)
    except (OSError, *PARSER_ERRORS):
        return None


def signal_wrapper(run: Path, node: int, *, kill: bool) -> bool:
    """Ask the wrapper of a node on this machine to stop; return whether it runs."""
    state = read_wrapper(run, node)
    lives = is_locked(wrapper_file(run, node, "lock"))
    if state is None or not lives or state.host != os.uname().nodename:
        return False
    os.kill(state.pid, signal.SIGQUIT if kill else signal.SIGTERM)
    return True

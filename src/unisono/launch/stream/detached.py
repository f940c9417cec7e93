"""A detached wrapper on its machine: its output, its state, and how to reach it.

`stream/node-0001.log` has what the processes of a node print, `stream/node-0001.json` the state
of their wrapper, which holds the lock of `stream/node-0001.lock` while it lives.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from unisono import atomic
from unisono.exit_codes import DONE, FAILED
from unisono.lock import is_locked, lock
from unisono.records.layout import RunDirectory
from unisono.small_files import PARSER_ERRORS, open_regular, read_bytes

ATTEMPTS = 20
LONGEST_LINE = 65536


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
    state, held = read_wrapper(run, node), wrapper_file(run, node, "lock")
    if state is None or not is_locked(held) or state.host != os.uname().nodename:
        return False
    # The state came from a file, perhaps from another machine: signal the holder of the lock
    # and nobody else. 0 and -1 would be groups of processes.
    if state.pid <= 1 or not _has_open(state.pid, held):
        return False
    os.kill(state.pid, signal.SIGQUIT if kill else signal.SIGTERM)
    return True


def _has_open(pid: int, path: Path) -> bool:
    with suppress(OSError):
        for handle in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if handle.samefile(path):
                    return True
    return False


class OutputReader:
    """Reads what the nodes of a detached run print, from where the last reader stopped."""

    def __init__(self, run: Path, nodes: int) -> None:
        self._run, self._nodes = run, nodes
        self._file = RunDirectory(run).stream / "shown.json"
        self._shown: dict[str, int] = {}
        with suppress(OSError, *PARSER_ERRORS):
            self._shown = msgspec.json.decode(read_bytes(self._file), type=dict[str, int])

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the new lines with their node; they count as shown."""
        for node in range(self._nodes):
            path = wrapper_file(self._run, node, "log")
            if not path.is_file():
                continue
            with open_regular(path) as file:
                file.seek(self._shown.get(path.name, 0))
                while (line := file.readline(LONGEST_LINE)).endswith(b"\n"):
                    self._shown[path.name] = file.tell()
                    yield node, line.decode("utf-8", "replace").rstrip("\n")

    def remember(self) -> None:
        """Write down what was shown."""
        temporary = self._file.with_name(".tmp-shown.json")
        temporary.write_bytes(msgspec.json.encode(self._shown))
        temporary.rename(self._file)


def detach(run: Path, node: int, work: Callable[[], int]) -> int:
    """Do `work` in a new session that survives this one; return 0 once it has begun.

    What it prints goes to the log of the node. Fails if the node has a wrapper already.
    """
    RunDirectory(run).stream.mkdir(parents=True, exist_ok=True)
    held = os.open(wrapper_file(run, node, "lock"), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        lock(held, attempts=ATTEMPTS)
    except BlockingIOError:
        sys.stderr.write(f"error: this run is going on here already (node {node})\n")
        return FAILED
    _note(run, node, WrapperState(pid=0, host=os.uname().nodename, started=time.time()))
    ready, noted = os.pipe()
    if os.fork():
        os.close(noted)
        os.read(ready, 1)  # until its number is written down, nobody can stop it
        return DONE
    os.setsid()
    if os.fork():
        os._exit(DONE)
    _redirect(wrapper_file(run, node, "log"))
    state = WrapperState(pid=os.getpid(), host=os.uname().nodename, started=time.time())
    _note(run, node, state)
    os.close(ready)
    os.close(noted)
    code = work()
    _note(run, node, msgspec.structs.replace(state, exit_code=code))
    os._exit(code)


def _redirect(log: Path) -> None:
    """Read from nowhere and write to `log`: the connection to the launcher will go away."""
    nowhere = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    for handle, stream in ((nowhere, 0), (output, 1), (output, 2)):
        os.dup2(handle, stream)


def _note(run: Path, node: int, state: WrapperState) -> None:
    atomic.write_bytes(wrapper_file(run, node, "json"), msgspec.json.encode(state))
